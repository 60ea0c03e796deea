import { randomBytes } from 'node:crypto';

/**
 * The uuid of a microservice that was deployed on this machine. No controller makes uuids of this form (RFC 9562,
 * version 8), so that the source of a container is known when nothing else of it is: neither its row nor the database.
 */
const FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-10ca1[0-9a-f]{7}$/;

export function newLocalUuid(): string {
  for (;;) {
    const uuid = withEnd(randomBytes(16).toString('hex'));
    if (!isControlPlaneUuid(uuid)) return uuid;
  }
}

const withEnd = (hex: string, end = hex.slice(18, 25)): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(12, 15)}-8${hex.slice(15, 18)}-10ca1${end}`;

/** The end of the uuid of a control plane: its volumes are safe from every removal, also where its row is lost. */
const CONTROL_PLANE_END = 'c0117a0';

export const newControlPlaneUuid = (): string => withEnd(randomBytes(16).toString('hex'), CONTROL_PLANE_END);

/** Whether a microservice of this uuid can only be the control plane of a machine. */
export const isControlPlaneUuid = (uuid: string): boolean => isLocalUuid(uuid) && uuid.endsWith(CONTROL_PLANE_END);

/** Whether a microservice of this uuid can only have been deployed on a machine. */
export function isLocalUuid(uuid: string): boolean {
  return FORM.test(uuid);
}
