import { type ExecSessionView, execSessionsSchema } from '../../src/wire/sessions.ts';
import type { Stack } from '../stack.ts';
import type { TestAgent } from '../test-agent.ts';
import { addressOf, type End, isPaired, openEnd, userHeaders } from './end.ts';

/** ms from when a user opens a terminal until the user hears that the agent has connected; one after the other, on all nodes in turn. */
export async function timePairings(stack: Stack, count: number): Promise<number[]> {
  const agents = stack.fleet.agents.filter(({ microservices }) => microservices?.length);
  const times: number[] = [];
  for (let i = 0; i < count; i++) {
    const agent = agents[i % agents.length] as TestAgent;
    await using _agent = serveTerminals(stack, agent);
    times.push(await timePairing(stack, agent.microservices?.[0]?.uuid ?? '', i));
  }
  return times;
}

/** The same for one terminal. */
export async function timePairing({ url, token }: Stack, microservice: string, i: number): Promise<number> {
  const began = performance.now();
  const user = await openEnd(url, `/microservices/exec/${microservice}`, userHeaders(token(), i));
  await user.next(isPaired);
  const ms = performance.now() - began;
  await user.close();
  return ms;
}

/** Connects to each terminal that a long poll of the agent tells it of. */
function serveTerminals({ http, url }: Stack, agent: TestAgent): AsyncDisposable {
  const ends: Promise<End>[] = [];
  const headers = () => ({ authorization: `Bearer ${agent.tokens(1)[0]}`, 'x-forwarded-for': addressOf(ends.length) });
  const isNew = ({ agentConnected }: ExecSessionView) => !agentConnected;

  async function connect(): Promise<void> {
    const answer = await http.send({ method: 'GET', path: '/api/v3/agent/exec/sessions', headers: headers() });
    if (answer.status !== 200) throw new Error(`GET /exec/sessions: ${answer.status} ${answer.text}`);
    const { execSessions } = execSessionsSchema.parse(JSON.parse(answer.text));
    for (const { microserviceUuid, sessionId } of execSessions.filter(isNew))
      ends.push(openEnd(url, `/agent/exec/microservice/${microserviceUuid}/${sessionId}`, headers()));
  }

  agent.onAnswer = (answer) => {
    // What fails here, the user sees as a terminal that does not begin.
    if (!(answer instanceof Error) && /"execSessions":true/.test(answer.text)) void connect().catch(() => {});
  };
  return {
    async [Symbol.asyncDispose]() {
      agent.onAnswer = undefined;
      await Promise.allSettled(ends.map(async (end) => (await end).close()));
    },
  };
}
