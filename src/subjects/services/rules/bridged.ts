import type { Service } from '../../../api/v3/service.ts';
import type { BridgedService } from '../../../rules/bridges.ts';
import { ageOf } from './bridge-ports.ts';
import { bridgeOf, formVerdict } from './verdict.ts';

/** A service as routers see it; undefined until it has a port, and while its form is wrong. */
export function bridgedServiceOf(service: Service): BridgedService | undefined {
  const { metadata, spec, status } = service;
  const bridgePort = status?.bridgePort;
  if (bridgePort === undefined || metadata.deletionTimestamp !== undefined || formVerdict(service)) return undefined;
  const { type, resource, targetPort, tags = [] } = spec;
  const bridge = bridgeOf(service);
  return {
    ...{ name: metadata.name, type, resource, targetPort, bridgePort, tags, since: ageOf(service) },
    ...(bridge !== undefined && { defaultBridge: bridge }),
  };
}
