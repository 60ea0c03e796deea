import type { RouterAttribute, RouterPair } from '../../../wire/router.ts';

type Attributes = Readonly<Record<string, RouterAttribute>>;
type Named = Record<string, Attributes>;

/** The configuration as images of v3 fetch it: the `config` of the microservice, each group by the names of its entities. */
export interface RouterMap {
  metadata: Attributes;
  siteConfig: Attributes;
  addresses: Named;
  logConfig: Named;
  sslProfiles: Named;
  listeners: Named;
  connectors: Named;
  bridges: { tcpListeners: Named; tcpConnectors: Named };
}

/** Gives the pairs of one router in the form of v3. */
export function mapForm(pairs: readonly RouterPair[]): RouterMap {
  const all = (entity: string) => pairs.flatMap(([kind, attributes]) => (kind === entity ? [attributes] : []));
  const named = (entity: string, by = 'name'): Named =>
    Object.fromEntries(all(entity).map((attributes) => [String(attributes[by]), attributes]));
  return {
    metadata: all('router')[0] ?? {},
    siteConfig: all('site')[0] ?? {},
    addresses: named('address', 'prefix'),
    logConfig: named('log', 'module'),
    sslProfiles: named('sslProfile'),
    listeners: named('listener'),
    connectors: named('connector'),
    bridges: { tcpListeners: named('tcpListener'), tcpConnectors: named('tcpConnector') },
  };
}
