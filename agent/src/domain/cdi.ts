import { parse } from 'yaml';

/** Where CDI specifications are, unless an engine says otherwise. */
export const CDI_DIRECTORIES: readonly string[] = ['/etc/cdi', '/var/run/cdi'];

const VENDOR_AND_CLASS = /^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?\/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?$/;
const DEVICE = /^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$/;
/** The greatest length of a name that a report may contain. */
const LONGEST = 256;

/** Whether a file of a directory is a CDI specification, by its name. */
export const isCdiFile = (name: string): boolean => /\.(json|ya?ml)$/.test(name);

/** The devices of a CDI specification, as `vendor/class=name`. Throws for a text that is none. */
export function cdiDevicesIn(text: string): string[] {
  const spec: unknown = parse(text);
  const { kind, devices } = memberOf(spec);
  if (typeof kind !== 'string' || !VENDOR_AND_CLASS.test(kind)) throw new Error('kind must be <vendor>/<class>');
  if (!Array.isArray(devices)) throw new Error('devices must be a list');
  return devices.map((device, index) => {
    const { name } = memberOf(device);
    if (typeof name !== 'string' || !DEVICE.test(name))
      throw new Error(`devices[${index}].name is no name of a device`);
    const full = `${kind}=${name}`;
    if (full.length > LONGEST) throw new Error(`devices[${index}].name is too long`);
    return full;
  });
}

const memberOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

/** Why a container cannot get these devices; undefined when the machine has all of them. */
export function missingDevices(asked: readonly string[], known: readonly string[]): string | undefined {
  const missing = asked.filter((device) => !known.includes(device));
  if (missing.length === 0) return undefined;
  const there = known.length > 0 ? `it has ${known.slice(0, 20).join(', ')}` : 'it has none';
  return `cdiDevices: no CDI specification of this machine names ${missing.join(', ')}; ${there}`;
}
