import type { Application, EdgeNode } from '../../api/v3/index.ts';

/** One claim of an external port of a node. */
export interface PortClaim {
  external: number;
  protocol: 'tcp' | 'udp';
  uuid: string;
  application: string;
  name: string;
  /** the node last reported a container of it that holds this port */
  reported: boolean;
  /** of its application; absent for removed microservices that are still reported */
  createdAt?: string;
  uid?: string;
}

/** Every claim on a node's ports: of entries that should run, and of what the node still reports. */
export function portClaims(_node: EdgeNode, _applications: readonly Application[]): readonly PortClaim[] {
  throw new Error('not written yet');
}

/** The claim that holds a port (design section 6): the reported one, else the older Application, its uid, the entry name. */
export function portHolder(
  _claims: readonly PortClaim[],
  _external: number,
  _protocol: 'tcp' | 'udp',
): PortClaim | undefined {
  throw new Error('not written yet');
}
