/** Ports that a cluster gives to Services of the type NodePort, unless somebody changed `--service-node-port-range` of its API server. */
const NODE_PORTS = { first: 30_000, last: 32_767 } as const;

/**
 * The ports of the Service of a hub, by their names, which its pod has as well. With the type NodePort a port of that range is open at
 * the nodes of the cluster as it is, so that one host and one port lead to the hub from everywhere. The API server chooses for others.
 */
export function hubServicePorts(
  type: 'ClusterIP' | 'NodePort' | 'LoadBalancer',
  ports: Readonly<Record<string, number>>,
) {
  return Object.entries(ports).map(([name, port]) => ({
    ...{ name, port, protocol: 'TCP', targetPort: name },
    ...(type === 'NodePort' && port >= NODE_PORTS.first && port <= NODE_PORTS.last && { nodePort: port }),
  }));
}
