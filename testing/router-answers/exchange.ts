import rhea, { type Connection, type EventContext, type Receiver, type Sender } from 'rhea';
import { waitFor } from '../../hack/wait.ts';
import { routerClientTls } from '../../src/router-client/client-tls.ts';

type Answer = 'accept' | 'release' | 'nothing';

/** What clients of a router see of the messages between them: who got which message, and what became of each one for its sender. */
export interface Exchange {
  step: string;
  seen: string[];
}

const EVENTS = ['error', 'connection_error', 'session_error', 'protocol_error', 'disconnected'];
/** Until nothing more happens in a step. */
const QUIET_MS = 300;

/**
 * Sends messages over addresses of a running router as replicas do for sessions, and notes what they see. The order inside of a step is left
 * out, since it differs from run to run.
 */
export async function exchange(port: number, tls: { ca: string; cert: string; key: string }): Promise<Exchange[]> {
  const made: Exchange[] = [];
  let last = performance.now();
  const note = (text: string) => {
    last = performance.now();
    made.at(-1)?.seen.push(text);
  };
  const connect = (): Connection => {
    const container = rhea.create_container({ id: 'replica' });
    for (const event of EVENTS) container.on(event, () => {});
    return container.connect({
      ...{ host: '127.0.0.1', port, transport: 'tls', reconnect: false, enable_sasl_external: true },
      ...routerClientTls('127.0.0.1', tls),
    } as never);
  };
  const [here, there] = [connect(), connect()];
  const end = (address: string) => ({ address, durable: 0, expiry_policy: 'link-detach' }) as const;
  const receive = (at: Connection, address: string, name: string, answer: Answer = 'accept', credit = 50): Receiver => {
    const receiver = at.open_receiver({ source: end(address), credit_window: 0, autoaccept: false });
    receiver.add_credit(credit);
    receiver.on('receiver_open', () => note(`${name} may receive`));
    receiver.on('message', ({ message, delivery }: EventContext) => {
      const { content } = (message?.body ?? {}) as { content?: Buffer };
      note(
        `${name} got ${String(content)} ${JSON.stringify(message?.application_properties)} ${message?.content_type}`,
      );
      if (answer !== 'nothing') delivery?.[answer]();
    });
    return receiver;
  };
  const send = (at: Connection, address: string): Sender => {
    const sender = at.open_sender({ target: end(address) });
    sender.on('sender_open', () => note(`sender to ${address} is open`));
    sender.once('sendable', () => note(`may send to ${address}`));
    for (const outcome of ['accepted', 'rejected'] as const) sender.on(outcome, () => note(`one was ${outcome}`));
    // The library says of a modified message that it was released, too.
    sender.on('released', ({ delivery }: EventContext) => {
      const state = (delivery as unknown as { remote_state?: { delivery_failed?: boolean } } | undefined)?.remote_state;
      note(state?.delivery_failed ? 'one failed' : 'one was released');
    });
    return sender;
  };
  const say = (sender: Sender, ...texts: string[]) => {
    for (const text of texts)
      sender.send({
        ...{
          content_type: 'application/octet-stream',
          application_properties: { op: 'frame', seq: 1, hasMore: false },
        },
        body: rhea.message.data_section(Buffer.from(text)),
      });
  };
  const step = async (what: string, act: () => void) => {
    made.push({ step: what, seen: [] });
    last = performance.now();
    act();
    await waitFor(() => performance.now() - last > QUIET_MS, { what: `the end of: ${what}` });
    made.at(-1)?.seen.sort();
  };

  let [sender, receiver, other]: [Sender?, Receiver?, Receiver?] = [];
  await step('a sender to an address at which nobody receives', () => {
    sender = send(here, 'user-1');
  });
  await step('a receiver there', () => {
    receiver = receive(there, 'user-1', 'first');
  });
  await step('two messages', () => sender && say(sender, 'one', 'two'));
  await step('the receiver leaves, and a message is sent with the credit that is left', () => {
    receiver?.close();
    setTimeout(() => sender && say(sender, 'lost'), QUIET_MS / 2);
  });
  await step('a receiver that releases', () => {
    receiver = receive(there, 'user-1', 'second', 'release');
    setTimeout(() => sender && say(sender, 'back'), QUIET_MS / 2);
  });
  await step('it leaves', () => void receiver?.close());
  await step('two receivers, and four messages that nobody settles', () => {
    receiver = receive(there, 'agent-1.x', 'third', 'nothing');
    other = receive(here, 'agent-1.x', 'fourth', 'nothing');
    sender = send(here, 'agent-1.x');
    setTimeout(() => sender && say(sender, 'm', 'm', 'm', 'm'), QUIET_MS / 2);
  });
  await step('one of the two leaves', () => void receiver?.close());
  await step('the other one leaves', () => void other?.close());
  await step('a receiver for three messages, and six of them', () => {
    receiver = receive(there, 'logs-user-1', 'fifth', 'nothing', 3);
    sender = send(here, 'logs-user-1');
    setTimeout(() => sender && say(sender, '1', '2', '3', '4', '5', '6'), QUIET_MS / 2);
  });
  await step('its connection is lost', () => {
    (there as unknown as { socket: { destroy(): void } }).socket.destroy();
  });
  here.close();
  return made;
}
