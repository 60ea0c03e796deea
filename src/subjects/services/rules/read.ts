import { ANNOTATIONS } from '../../../api/names.ts';
import { DEFAULT_BRIDGE, type Service } from '../../../api/v3/service.ts';
import { provisioningOf } from './provisioning.ts';

/** A service as reads over REST show it. */
export function serviceRead({ metadata, spec, status }: Service): Record<string, unknown> {
  const service = { metadata, spec, ...(status && { status }) };
  const { provisioningStatus, provisioningError } = provisioningOf(service);
  return {
    name: metadata.name,
    type: spec.type,
    resource: spec.resource,
    targetPort: spec.targetPort,
    defaultBridge: spec.defaultBridge ?? DEFAULT_BRIDGE,
    bridgePort: status?.bridgePort ?? null,
    servicePort: spec.servicePort ?? status?.servicePort ?? null,
    clusterType: spec.clusterType ?? null,
    serviceEndpoint: status?.serviceEndpoint ?? null,
    provisioningStatus,
    provisioningError: provisioningError ?? null,
    tags: spec.tags ?? [],
    createdAt: metadata.creationTimestamp ?? null,
    updatedAt: metadata.annotations?.[ANNOTATIONS.updatedAt] ?? metadata.creationTimestamp ?? null,
  };
}
