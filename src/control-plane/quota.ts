import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { ETCD_URL } from './layout.ts';

/** A slow disk and a full datastore take so long, ms. */
const ANSWER_MS = 600_000;
const FULL = 'NOSPACE';

interface Alarms {
  header: { revision: string };
  alarms?: { memberID: string; alarm: string }[];
}

/**
 * Ends the state in which an etcd that has reached its quota takes no more writes: drops former versions, gives back their room, and ends the
 * alarm. Nobody else does it, for the API server itself has to write before it drops versions. Resolves to whether etcd was in this state.
 */
export async function endFullState(signal: AbortSignal, url: string = ETCD_URL): Promise<boolean> {
  const post = (path: string, body: object) => call(`${url}/v3/${path}`, body, signal);
  const { header, alarms = [] } = JSON.parse(await post('maintenance/alarm', { action: 'GET' })) as Alarms;
  const full = alarms.filter(({ alarm }) => alarm === FULL);
  if (full.length === 0) return false;
  await post('kv/compaction', { revision: header.revision, physical: true }).catch((error: Error) => {
    // By a start that ended after it.
    if (!error.message.includes('has been compacted')) throw error;
  });
  await post('maintenance/defragment', {});
  // Without its member etcd answers 200, and the alarm stays.
  for (const { memberID } of full) await post('maintenance/alarm', { action: 'DEACTIVATE', memberID, alarm: FULL });
  return true;
}

async function call(url: string, body: object, signal: AbortSignal): Promise<string> {
  const sent = request(url, { method: 'POST', signal, timeout: ANSWER_MS });
  sent.on('timeout', () => sent.destroy(new Error(`etcd has not answered within ${ANSWER_MS / 1000} s`)));
  sent.end(JSON.stringify(body));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const answer = await text(response);
  if (response.statusCode !== 200) throw new Error(`etcd answered ${response.statusCode}: ${answer}`);
  return answer;
}
