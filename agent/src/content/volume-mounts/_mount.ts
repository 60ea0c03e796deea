import type { VolumeMountView } from '../../../../src/wire/volume-mounts.ts';

export const MOUNT = '22222222-2222-4222-8222-222222222222';

/** The secret `creds` with these texts, as the controller sends it. */
export function mount(texts: Record<string, string>, change: Partial<VolumeMountView> = {}): VolumeMountView {
  const data = Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
  return {
    uuid: MOUNT,
    name: 'creds',
    version: 1,
    type: 'secret',
    data: Object.fromEntries(data),
    sourceMissing: false,
    ...change,
  };
}

/** A mapping of a volume mount, or of a part of it. */
export const mounted = (hostDestination: string, containerDestination: string) =>
  ({ hostDestination, containerDestination, accessMode: 'ro', type: 'volumeMount', scope: 'private' }) as const;
