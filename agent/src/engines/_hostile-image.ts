import { readFileSync } from 'node:fs';
import { buildImage, type Image } from '../../../hack/image.ts';
import { shellImage } from '../../../hack/shell-image.ts';
import { BLOCK, headerChecksum, padded } from '../../../src/lib/tar/block.ts';
import { makeTar, type NewEntry } from '../../../src/lib/tar/write.ts';

/** Entries that the writer of archives has no word for. */
interface Special {
  path: string;
  /** what it is in the header: a hard link, or a device of characters */
  flag: '1' | '3';
  target?: string;
  device?: [major: number, minor: number];
}

/** The device of FUSE, which any user may open who is not kept from it. */
const FUSE: [number, number] = [10, 229];

/** An image with a shell, a program of root with the setuid bit, and a device for everybody. */
export function imageWithDevice(): Image {
  const setuid = { path: 'bin/asroot', type: 'file', content: readFileSync('/bin/cat'), mode: 0o4755 } as const;
  return onShell([setuid], [{ path: 'tmp/fuse', flag: '3', device: FUSE }]);
}

/** An image whose layer goes through a link to a folder of the machine, and makes a file there. */
export const imageThroughLink = (folder: string): Image =>
  onShell([
    { path: 'tmp/out', type: 'symlink', target: folder },
    { path: 'tmp/out/planted', type: 'file', content: Buffer.from('planted') },
  ]);

/** An image with a hard link to a file of the machine. */
export const imageWithHardLink = (file: string): Image =>
  onShell([], [{ path: 'tmp/secret', flag: '1', target: `../../../../../../..${file}` }]);

function onShell(entries: readonly NewEntry[], special: readonly Special[] = []): Image {
  const end = 2 * BLOCK;
  const plain = makeTar(entries);
  const tar = Buffer.concat([plain.subarray(0, plain.length - end), ...special.map(headerOf), Buffer.alloc(end)]);
  return buildImage({ base: single(shellImage()), files: [], tar, cmd: ['/bin/sleep', '3600'], env: { PATH: '/bin' } });
}

/** The image of this machine in an index of one. */
function single(index: Image): Image {
  const { manifests } = JSON.parse(index.manifests.get(index.top.digest)?.bytes.toString() ?? '') as {
    manifests: Image['top'][];
  };
  return { ...index, top: manifests[0] as Image['top'] };
}

function headerOf({ path, flag, target = '', device }: Special): Buffer {
  const block = Buffer.from(makeTar([{ path, type: 'file', mode: 0o666 }]).subarray(0, padded(1)));
  block.write(flag, 156, 'latin1');
  block.write(target, 157, 'latin1');
  for (const [at, number] of (device ?? []).entries())
    block.write(`${number.toString(8).padStart(7, '0')}\0`, at === 0 ? 329 : 337, 'latin1');
  block.write(`${headerChecksum(block).toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}
