import { RESERVED_EXTERNAL_PORTS } from '../../../../api/names.ts';
import { v3Name } from '../../../../rules/names.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { nodeOf } from '../../../nodes/rules/placement/entries.ts';
import { claimsAt, type PortClaim, portClaimsOf, portHeir, portHolder, portKeeper } from '../application/ports.ts';
import type { VerdictInput } from './rule.ts';

export function portsAreAllowed({ entry }: VerdictInput): Verdict | undefined {
  const ports = entry.container.ports ?? [];
  const reserved = ports.find(({ external }) => RESERVED_EXTERNAL_PORTS.includes(external));
  if (reserved)
    return {
      reason: 'PortReserved',
      status: 400,
      code: 'PORT_RESERVED',
      field: 'container.ports',
      message: `the external port ${reserved.external} is reserved; the reserved ones are ${RESERVED_EXTERNAL_PORTS.join(', ')}`,
    };
  const twice = ports.find((port, index) => ports.findIndex((other) => isSamePort(other, port)) !== index);
  if (!twice) return undefined;
  return {
    reason: 'PortTaken',
    status: 400,
    code: 'PORT_MAPPING_ALREADY_EXISTS',
    field: 'container.ports',
    message: `the external port ${portText(twice)} is mapped twice`,
  };
}

/**
 * A port has one holder. A port that is being given up (its entry no longer asks for it) refuses no write. A microservice
 * that the node has already is sent at once and keeps its container until the port is free, so that two can swap ports; a
 * new one waits.
 */
export function portsAreFree(input: VerdictInput): Verdict | undefined {
  const { entry, uuid, node, writing } = input;
  const ports = entry.container.ports ?? [];
  if (!node || ports.length === 0) return undefined;
  const claims = input.claims(node);
  const taken = (port: (typeof ports)[number], { application, name }: PortClaim, more = ''): Verdict => ({
    reason: 'PortTaken',
    status: 400,
    code: 'PORT_NOT_AVAILABLE',
    field: 'container.ports',
    message: `the port ${portText(port)} of the node "${v3Name(node)}" is held by ${application}/${name}${more}`,
  });
  for (const port of ports) {
    const other = writing
      ? claimsAt(claims, port).find((claim) => claim.uuid !== uuid && claim.wanted)
      : portHeir(claims, port);
    if (other && other.uuid !== uuid) return taken(port, other);
  }
  for (const port of writing ? [] : ports) {
    const holder = portHolder(claims, port.external, port.protocol ?? 'tcp');
    if (!holder || holder.uuid === uuid) continue;
    const keeper = portKeeper(claims, holder, input.isRefused, (other) => {
      const there = nodeOf(other.entry, input.lookups);
      return there ? input.claims(there) : [];
    });
    if (keeper)
      return taken(port, holder, `, which cannot give it up: ${keeper.application}/${keeper.name} is refused`);
    const isPresent = portClaimsOf(claims, uuid).some(({ present }) => present);
    if (!isPresent) return { ...taken(port, holder, ', which is giving it up'), passes: true };
  }
  return undefined;
}

const isSamePort = (
  a: { external: number; protocol?: 'tcp' | 'udp' },
  b: { external: number; protocol?: 'tcp' | 'udp' },
) => a.external === b.external && (a.protocol ?? 'tcp') === (b.protocol ?? 'tcp');
const portText = ({ external, protocol = 'tcp' }: { external: number; protocol?: string }) => `${external}/${protocol}`;
