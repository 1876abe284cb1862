//! The volume behind a drive: made, imported, or found.

use crate::simulator::fail::ApiError;
use crate::simulator::props::{Drive, print_size};
use crate::simulator::world::World;

/// The size of an EFI disk of type 4m.
const EFI_SIZE: u64 = 528 << 10;

impl World {
    /// Makes, finds or checks the volume of a drive; the drive's text.
    pub(crate) fn prepare_drive(
        &mut self,
        node: &str,
        vmid: u32,
        key: &str,
        value: &str,
        attached: &[(String, Drive)],
        log: &mut Vec<String>,
    ) -> Result<String, ApiError> {
        let mut drive = Drive::parse(value);
        if drive.file == "none" || drive.file == "cdrom" {
            drive.set("media", "cdrom");
            return Ok(drive.print());
        }
        let storage = drive.storage().unwrap_or_default().to_owned();
        if drive.file.ends_with(":cloudinit") {
            if let Some((other, _)) = attached.iter().find(|(slot, d)| d.is_cloudinit() && slot != key) {
                return Err(ApiError::failed(format!(
                    "{key} - cloud-init drive is already attached at '{other}'"
                )));
            }
            let (volid, mut said) = self.allocate_cloudinit(node, &storage, vmid, drive.option("format"))?;
            drive.file = volid;
            drive.unset("format");
            drive.set("media", "cdrom");
            log.append(&mut said);
            log.push(format!("{key}: successfully created disk '{}'", drive.print()));
            return Ok(drive.print());
        }
        if let Some(gib) = drive.new_size() {
            let source = drive.option("import-from").map(str::to_owned);
            let format = drive.option("format").map(str::to_owned);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "disk sizes are far below 2^52 and not negative"
            )]
            let mut size = (gib * 1_073_741_824.0) as u64;
            let mut data = 0;
            let mut format = format;
            if key == "efidisk0" {
                size = EFI_SIZE;
            }
            if let Some(source) = &source {
                let found;
                (size, data, found) = self.import_source(node, source)?;
                format = format.or(Some(found));
                log.push(format!("create full clone of drive ({source})"));
            }
            let (volid, mut said) = self.allocate_disk(node, &storage, vmid, size, format.as_deref())?;
            if source.is_some() {
                said.push(format!("allocated target volume '{volid}'"));
            }
            if data > 0
                && let Some(volume) = self.volume_mut(node, &volid)
            {
                volume.used = data;
            }
            drive.file = volid;
            drive.unset("format");
            drive.unset("import-from");
            drive.set("size", &print_size(size));
            log.append(&mut said);
            log.push(format!("{key}: successfully created disk '{}'", drive.print()));
            return Ok(drive.print());
        }
        self.check_volume(node, &drive.file.clone())?;
        if let Some(volume) = self.volume(node, &drive.file)
            && !drive.is_cdrom()
        {
            if let Some(format) = drive.option("format").filter(|f| *f != volume.format) {
                return Err(ApiError::invalid(
                    key,
                    format!(
                        "'format={format}' option different from storage format '{}'",
                        volume.format
                    ),
                ));
            }
            let size = print_size(volume.size);
            drive.unset("format");
            drive.set("size", &size);
        }
        Ok(drive.print())
    }

    /// Size, data and format of what a disk is imported from. A file's size is made up.
    fn import_source(&self, node: &str, source: &str) -> Result<(u64, u64, String), ApiError> {
        if let Some(volume) = self.volume(node, source) {
            return Ok((volume.size, volume.used, volume.format.clone()));
        }
        let (storage, name) = source.split_once(':').unwrap_or((source, ""));
        if self.check_volume(node, source).is_err()
            && let Some(path) = self.storages.get(storage).and_then(|s| s.path.as_deref())
        {
            return Err(ApiError::failed(format!("failed to stat '{path}/{name}'")));
        }
        let format = name.rsplit('.').next().unwrap_or("raw");
        Ok((64 << 20, 32 << 20, format.to_owned()))
    }
}
