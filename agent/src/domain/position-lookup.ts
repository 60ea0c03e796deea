import { type Coordinates, coordinatesFrom, coordinatesIn } from './position.ts';

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** Why an address cannot be asked for the position; undefined where it can. */
export function lookupUrlProblem(text: string): string | undefined {
  const url = URL.parse(text);
  const isFit = url?.protocol === 'https:' || (url?.protocol === 'http:' && LOOPBACK.test(url.hostname));
  return isFit ? undefined : 'must be an address that begins with https://, or with http:// on this machine itself';
}

/** An address as it may be shown: its query may be a key. */
export function shownUrl(text: string): string {
  const url = URL.parse(text);
  return url ? `${url.origin}${url.pathname}` : '';
}

/** Names that services give the members of a position. */
const LATITUDES = ['latitude', 'lat'];
const LONGITUDES = ['longitude', 'lon', 'lng'];

/** The position in an answer: members such as `lat` and `lon`, or `loc` with both in one text; undefined where there is none. */
export function positionIn(body: string): Coordinates | undefined {
  let answer: unknown;
  try {
    answer = JSON.parse(body);
  } catch {
    return undefined;
  }
  if (typeof answer !== 'object' || answer === null) return undefined;
  const members = answer as Record<string, unknown>;
  if (typeof members.loc === 'string') return coordinatesIn(members.loc);
  const [latitude, longitude] = [LATITUDES, LONGITUDES].map((names) => degreesIn(members, names));
  return latitude === undefined || longitude === undefined ? undefined : coordinatesFrom(latitude, longitude);
}

function degreesIn(members: Record<string, unknown>, names: readonly string[]): number | undefined {
  const value = names.map((name) => members[name]).find((each) => each !== undefined);
  const degrees = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof degrees === 'number' && Number.isFinite(degrees) ? degrees : undefined;
}
