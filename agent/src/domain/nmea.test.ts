import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NmeaLines, readNmea } from './nmea.ts';

/** A sentence with its checksum. */
export const sentence = (content: string): string => {
  let sum = 0;
  for (const letter of content) sum ^= letter.charCodeAt(0);
  return `$${content}*${sum.toString(16).toUpperCase().padStart(2, '0')}`;
};

const GGA = 'GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,';
const RMC = 'GNRMC,123519,A,4807.038,S,01131.000,W,022.4,084.4,230394,003.1,W';

describe('a sentence of a receiver', () => {
  test.each([
    [sentence(GGA), { latitude: 48.1173, longitude: 11.51667 }],
    [sentence(RMC), { latitude: -48.1173, longitude: -11.51667 }],
    ['$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47', { latitude: 48.1173, longitude: 11.51667 }],
    [sentence(GGA.replace('GP', 'BD')), { latitude: 48.1173, longitude: 11.51667 }],
    [sentence('GLRMC,,A,0000.0,N,00000.0,E,,,,,'), { latitude: 0, longitude: 0 }],
  ])('%s has a position', (line, position) => expect(readNmea(line)).toEqual(position));

  test.each([
    sentence(GGA.replace('E,1,08', 'E,0,00')),
    sentence('GPGGA,123519,,,,,0,00,99.9,,,,,,'),
    sentence(RMC.replace(',A,', ',V,')),
  ])('%s has none', (line) => expect(readNmea(line)).toBe('no fix'));

  test.each([
    sentence(GGA).replace('4807', '4808'),
    sentence(GGA).slice(0, -3),
    sentence(GGA.replace('GGA', 'GSV')),
    sentence(GGA.replace('4807.038', '9907.038')),
    sentence(GGA.replace('4807.038', '4867.038')),
    sentence(GGA.replace(',N,', ',X,')),
    sentence(GGA.replace(',N,', ',,')),
    sentence(GGA.replace('01131.000', '1131.000')),
    `x${sentence(GGA)}`,
    '',
  ])('%s says nothing', (line) => expect(readNmea(line)).toBeUndefined());

  test('is a place on earth, whatever the bytes are', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 150 }), (text) => {
        const reading = readNmea(sentence(`GPGGA,${text}`));
        if (reading === undefined || reading === 'no fix') return;
        expect(Math.abs(reading.latitude)).toBeLessThanOrEqual(90);
        expect(Math.abs(reading.longitude)).toBeLessThanOrEqual(180);
      }),
    );
  });
});

describe('the lines of a receiver', () => {
  test('are the same in whatever pieces they come', () => {
    const bytes = Buffer.from(`junk\r\n${sentence(GGA)}\r\n\r\n${sentence(RMC)}\n`);
    fc.assert(
      fc.property(fc.array(fc.nat({ max: bytes.length })), (cuts) => {
        const lines = new NmeaLines();
        const ends = [...cuts.sort((a, b) => a - b), bytes.length];
        const read = ends.flatMap((end, at) => lines.push(bytes.subarray(ends[at - 1] ?? 0, end)));
        expect(read).toEqual(['junk', sentence(GGA), sentence(RMC)]);
      }),
    );
  });

  test('leave out a line without an end, and continue with the next', () => {
    const lines = new NmeaLines();
    for (let at = 0; at < 1000; at++) expect(lines.push(Buffer.alloc(4096, 'x'))).toEqual([]);
    expect(lines.push(Buffer.from(`\n${sentence(GGA)}\n`))).toEqual([sentence(GGA)]);
  });
});
