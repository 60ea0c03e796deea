import { giveDirectory, makeDirectory } from '../../../machine/disk.ts';
import type { ContainerdPlaces } from './places.ts';

/**
 * Makes the folders of a private containerd. Records in the root have the environments of containers: only root enters it,
 * also where an earlier release made it. Programs of containers pass through the folder of mounts, as other users too.
 */
export function makeContainerdFolders({
  root,
  state,
  networks,
  registries,
}: Pick<ContainerdPlaces, 'root' | 'state' | 'networks' | 'registries'>): void {
  makeDirectory(root, 0o700);
  giveDirectory(root, 0o700);
  makeDirectory(state, 0o711);
  for (const folder of [networks, registries]) makeDirectory(folder, 0o755);
}
