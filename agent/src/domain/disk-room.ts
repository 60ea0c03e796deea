const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

/** The file system that pulls write to, and what the agent holds on it; bytes. */
export interface DiskRoom {
  total: number;
  available: number;
  /** what the agent's own directory holds; undefined while that is not known */
  used?: number;
  /** what it may hold */
  limit?: number;
}

/** The free space, in bytes, that a pull leaves: 5 % of the file system, at least 64 MiB and at most 2 GiB. */
function reserve({ total }: Pick<DiskRoom, 'total'>): number {
  return Math.min(Math.max(total * 0.05, 64 * MIB), 2 * GIB);
}

/** Why so many more bytes must not be written, in one sentence, or undefined. Pure. */
export function roomRefusal(bytes: number, room: DiskRoom): string | undefined {
  const left = room.available - reserve(room);
  if (bytes > left)
    return `it needs ${sizeText(bytes)}, and the disk has ${sizeText(Math.max(0, left))} left apart from the ${sizeText(reserve(room))} that stay free`;
  const { used, limit } = room;
  if (used === undefined || limit === undefined || used + bytes <= limit) return undefined;
  return `it needs ${sizeText(bytes)}, and the disk limit of ${sizeText(limit)} leaves ${sizeText(Math.max(0, limit - used))}`;
}

/** A size for people, in the largest unit that gives a number above one. */
function sizeText(bytes: number): string {
  if (bytes < MIB) return `${Math.ceil(bytes / 1024)} KiB`;
  return bytes < GIB ? `${(bytes / MIB).toFixed(1)} MiB` : `${(bytes / GIB).toFixed(1)} GiB`;
}
