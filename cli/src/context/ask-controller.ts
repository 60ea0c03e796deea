import http from 'node:http';
import https from 'node:https';
import type { Duplex } from 'node:stream';

/** A request to the controller. */
export interface ControllerRequest {
  method?: 'GET' | 'POST';
  headers?: Readonly<Record<string, string>>;
  /** sent as JSON */
  json?: object;
  /** PEM; absent: an authority of the system */
  ca?: string | undefined;
  /** a connection that exists */
  through?: Duplex | undefined;
  /** bytes that are read of the response */
  mostBytes: number;
}

/** The status and the text of a response; rejects when there is none, or a longer one than is read. */
export function askController(
  url: string,
  { method = 'GET', headers = {}, json, ca, through, mostBytes }: ControllerRequest,
  signal: AbortSignal,
): Promise<{ status: number; text: string }> {
  const { request } = url.startsWith('https:') ? https : http;
  const body = json === undefined ? undefined : Buffer.from(JSON.stringify(json));
  const ofBody = body && { 'content-type': 'application/json', 'content-length': body.length };
  const connection = through ? { createConnection: () => through } : { agent: false as const };
  const options = {
    method,
    headers: { ...headers, ...ofBody },
    signal,
    ...(ca !== undefined && { ca }),
    ...connection,
  };
  return new Promise((resolve, reject) => {
    const asked = request(url, options, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > mostBytes) response.destroy(new Error(`its response has more than ${mostBytes} bytes`));
        else chunks.push(chunk);
      });
      response.once('error', reject);
      response.once('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
    });
    asked.once('error', reject);
    asked.end(body);
  });
}
