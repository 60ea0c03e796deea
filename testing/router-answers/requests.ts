/** A request to the management of a router. Ports and paths in capitals are replaced by the ports and paths of the run. */
export interface Request {
  /** as `operation kind name` */
  what: string;
  body?: Record<string, unknown>;
}

const TLS = { caCertFile: 'CERTS/ca.crt', certFile: 'CERTS/tls.crt', privateKeyFile: 'CERTS/tls.key' };

/** The requests that we rely on, with refused ones. Each finds what the ones before left. */
export const REQUESTS: readonly Request[] = [
  { what: 'QUERY listener' },
  { what: 'QUERY sslProfile' },
  { what: 'QUERY tcpListener' },
  { what: 'CREATE tcpListener web-listener', body: { port: 'PORT1', address: 'web' } },
  { what: 'QUERY tcpListener' },
  {
    what: 'CREATE tcpConnector web-connector',
    body: { host: '127.0.0.1', port: 'PORT9', address: 'web', processId: 'p' },
  },
  { what: 'QUERY tcpListener' },
  { what: 'QUERY tcpConnector' },
  { what: 'CREATE tcpListener web-listener', body: { port: 'PORT2', address: 'web' } },
  { what: 'CREATE sslProfile web-listener', body: TLS },
  { what: 'CREATE tcpListener taken', body: { port: 'PORT1', address: 'web' } },
  { what: 'QUERY tcpListener' },
  { what: 'CREATE tcpListener bad', body: { port: 'PORT2', address: 'bad', routeContainer: true } },
  { what: 'CREATE tcpListener bad', body: { port: 'PORT2', address: 'bad', operStatus: 'up' } },
  { what: 'CREATE tcpListener bad', body: { port: 'PORT2', address: 'bad', authenticatePeer: 'maybe' } },
  { what: 'CREATE tcpListener bad', body: { port: 'PORT2', address: 'bad', backlog: 'many' } },
  { what: 'CREATE tcpListener bad', body: { port: 'PORT2', address: 'bad', observer: 'http9' } },
  { what: 'CREATE tcpListener bad', body: { port: 'PORT2', address: 'bad', sslProfile: 'none' } },
  { what: 'CREATE tcpListener bad', body: { address: 'bad' } },
  { what: 'CREATE tcpListener bad', body: { port: 'PORT2' } },
  { what: 'CREATE tcpConnector bad', body: { address: 'bad' } },
  { what: 'CREATE bridge bad', body: { port: 'PORT2' } },
  { what: 'CREATE router bad', body: { id: 'x' } },
  { what: 'CREATE log bad', body: { module: 'SERVER' } },
  { what: 'CREATE connector bad', body: { host: 'localhost', port: 'PORT2', role: 'hub' } },
  { what: 'CREATE listener bad', body: { port: 'PORT2', sslProfile: 'none' } },
  { what: 'CREATE listener clients', body: { port: 'PORT3', cost: '2', authenticatePeer: 'yes' } },
  {
    what: 'CREATE connector up',
    body: { host: 'localhost', port: 'PORT9', role: 'inter-router', sslProfile: 'router-site-server' },
  },
  { what: 'UPDATE listener clients', body: { cost: 3 } },
  { what: 'UPDATE tcpListener web-listener', body: { port: 'PORT2' } },
  { what: 'UPDATE tcpListener web-listener', body: { port: 'PORT1', observer: 'none' } },
  { what: 'UPDATE tcpListener missing', body: { observer: 'none' } },
  { what: 'UPDATE sslProfile router-local-server', body: {} },
  { what: 'UPDATE sslProfile router-local-server', body: { ordinal: 5 } },
  { what: 'UPDATE sslProfile router-local-server', body: { ordinal: 5, oldestValidOrdinal: 6 } },
  { what: 'CREATE sslProfile spare', body: TLS },
  { what: 'CREATE sslProfile lost', body: { caCertFile: 'CERTS/none.crt' } },
  { what: 'QUERY sslProfile' },
  { what: 'DELETE sslProfile spare' },
  { what: 'DELETE sslProfile lost' },
  { what: 'DELETE tcpConnector web-listener' },
  { what: 'DELETE tcpConnector web-connector' },
  { what: 'QUERY tcpListener' },
  { what: 'DELETE tcpListener taken' },
  { what: 'DELETE tcpListener web-listener' },
  { what: 'DELETE tcpListener web-listener' },
  { what: 'DELETE listener clients' },
  { what: 'DELETE connector up' },
  { what: 'DELETE listener @9090' },
  { what: 'DELETE router anything' },
  { what: 'PURGE listener router-site-server' },
  { what: 'QUERY bridge' },
  { what: 'QUERY listener' },
];
