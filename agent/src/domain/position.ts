/** A place on earth: degrees north and east. */
export interface Coordinates {
  latitude: number;
  longitude: number;
}

/** Where a machine is, and when that was found out, Unix ms. */
export interface Fix extends Coordinates {
  at: number;
}

/** Decimals of coordinates: a metre. */
const DECIMALS = 5;

/** Two numbers as coordinates, rounded to a metre; undefined where they are no place on earth. */
export function coordinatesFrom(latitude: number, longitude: number): Coordinates | undefined {
  if (!(Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180)) return undefined;
  return { latitude: rounded(latitude), longitude: rounded(longitude) };
}

/** The coordinates of a text such as `47.5,8.7`; undefined for any other text. */
export function coordinatesIn(text: string): Coordinates | undefined {
  const parts = text.split(',').map((part) => part.trim());
  if (parts.length !== 2 || !parts.every((part) => DEGREES.test(part))) return undefined;
  return coordinatesFrom(Number(parts[0]), Number(parts[1]));
}

/** How coordinates stand in the file of settings. */
export const coordinatesText = ({ latitude, longitude }: Coordinates): string =>
  `${latitude.toFixed(DECIMALS)},${longitude.toFixed(DECIMALS)}`;

/** Degrees as people write them. */
export const DEGREES = /^[+-]?\d{1,3}(?:\.\d{1,20})?$/;

/** Without the sign of a zero, which would be shown. */
const rounded = (degrees: number) => Math.round(degrees * 10 ** DECIMALS) / 10 ** DECIMALS + 0;
