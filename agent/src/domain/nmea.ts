import { type Coordinates, coordinatesFrom } from './position.ts';

/** A sentence has 82 characters; some receivers write more digits. */
const LONGEST = 128;

/** A sentence with a position: whoever sends it (`GP`, `GN`, `GL` and others), its fields, its checksum. */
const SENTENCE = /^\$([A-Z]{2}(GGA|RMC),[\x20-\x29\x2b-\x7e]{0,120})\*([0-9A-Fa-f]{2})$/;

/** What a line of a receiver says: a position, that it has none, or nothing about that. */
export type Reading = Coordinates | 'no fix' | undefined;

/** The fields of a kind of sentence that count: where the position begins, and whether it is one. */
const KINDS: Readonly<Record<string, { at: number; isFix: (fields: readonly string[]) => boolean }>> = {
  GGA: { at: 2, isFix: ({ 6: quality }) => quality !== undefined && /^[1-9]$/.test(quality) },
  RMC: { at: 3, isFix: ({ 2: status }) => status === 'A' },
};

/** Reads a line of NMEA 0183. A line without a right checksum says nothing. */
export function readNmea(line: string): Reading {
  const [, content = '', kind = '', checksum = ''] = SENTENCE.exec(line.slice(0, LONGEST + 1)) ?? [];
  const form = KINDS[kind];
  if (!form || checksumOf(content) !== Number.parseInt(checksum, 16)) return undefined;
  const fields = content.split(',');
  if (!form.isFix(fields)) return 'no fix';
  const [latitude, north, longitude, east] = fields.slice(form.at, form.at + 4);
  return place(degrees(latitude, 2, north, 'NS'), degrees(longitude, 3, east, 'EW'));
}

function place(latitude: number | undefined, longitude: number | undefined): Reading {
  return latitude === undefined || longitude === undefined ? undefined : coordinatesFrom(latitude, longitude);
}

/** Degrees and minutes written together: `4730.000`, north. */
function degrees(text = '', digits: number, side = '', sides: string): number | undefined {
  const [, whole = '', minutes = ''] = /^(\d{2,3})(\d{2}(?:\.\d{1,12})?)$/.exec(text) ?? [];
  if (whole.length !== digits || side.length !== 1 || !sides.includes(side) || Number(minutes) >= 60) return undefined;
  const value = Number(whole) + Number(minutes) / 60;
  return side === sides[0] ? value : -value;
}

function checksumOf(content: string): number {
  let sum = 0;
  for (let at = 0; at < content.length; at++) sum ^= content.charCodeAt(at);
  return sum;
}

/** Cuts what a receiver sends into lines, and keeps no more than one line: the rest of a longer one is left out. */
export class NmeaLines {
  #rest = '';
  #isTooLong = false;

  push(bytes: Uint8Array): string[] {
    const lines: string[] = [];
    const pieces = Buffer.from(bytes)
      .toString('latin1')
      .split(/[\r\n]/);
    for (const [at, piece] of pieces.entries()) {
      if (!this.#isTooLong) this.#rest += piece.slice(0, LONGEST + 1 - this.#rest.length);
      if (this.#rest.length > LONGEST) this.#isTooLong = true;
      if (at === pieces.length - 1) break;
      if (!this.#isTooLong && this.#rest !== '') lines.push(this.#rest);
      this.#rest = '';
      this.#isTooLong = false;
    }
    return lines;
  }
}
