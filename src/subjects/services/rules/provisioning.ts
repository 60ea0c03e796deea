import { ANNOTATIONS } from '../../../api/names.ts';
import type { PROVISIONING, Service } from '../../../api/v3/service.ts';

/** Attempts that fail in a row until a service counts as failed. */
export const ATTEMPTS = 10;
/** Looks at a load balancer without an address, and the pause between them: together one attempt. */
export const ADDRESS_POLLS = 10;
export const ADDRESS_POLL_MS = 2_000;

const FIRST_RETRY_MS = 5_000;
const LONGEST_RETRY_MS = 900_000;

/** The pause after so many failed attempts, ms: it doubles, up to a quarter of an hour. `random` is from 0 to 1. */
export const pauseAfter = (failures: number, random: number): number =>
  Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1)) * (0.8 + 0.2 * random);

/** The count of requested attempts, by the annotation; 0 when it is no count. */
export function requestedReconciles({ metadata }: Pick<Service, 'metadata'>): number {
  const text = metadata.annotations?.[ANNOTATIONS.reconcile];
  return text !== undefined && /^[0-9]{1,15}$/.test(text) ? Number(text) : 0;
}

type Provisioning = (typeof PROVISIONING)[number];

/** Whether a status is about the present spec and the last request of another attempt. */
export const isCurrent = ({ metadata, status }: Pick<Service, 'metadata' | 'status'>): boolean =>
  status !== undefined &&
  status.observedGeneration >= (metadata.generation ?? 1) &&
  (status.reconciles ?? 0) === requestedReconciles({ metadata });

/** How far a service is: pending until the leader has looked at the present spec and the last request. */
export function provisioningOf(service: Pick<Service, 'metadata' | 'status'>): {
  provisioningStatus: Provisioning;
  provisioningError?: string;
} {
  const { status } = service;
  if (!status || !isCurrent(service)) return { provisioningStatus: 'pending' };
  const { provisioningStatus = 'pending', provisioningError } = status;
  return { provisioningStatus, ...(provisioningError !== undefined && { provisioningError }) };
}
