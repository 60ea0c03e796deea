import { describe, expect, test } from 'vitest';
import { createVirtualClock } from '../kube/_util.ts';
import { silentLog } from '../lib/log.ts';
import { encodeFrame, type FrameType, FRAME_TYPES as T } from '../wire/frames.ts';
import { createFakeSocket } from './_fake-socket.ts';
import { type Address, type ChannelListener, type Envelope, readEnvelope, writeEnvelope } from './broker.ts';
import { createBrokerRelay } from './broker-relay.ts';
import { LINK_TIMES } from './link.ts';

/** The relay of one replica; the test is the broker and the other replicas. */
function createReplica() {
  const clock = createVirtualClock();
  const channels: { address: Address; listener: ChannelListener; said: Envelope[]; isOpen: boolean }[] = [];
  const joined: string[] = [];
  const forgotten: string[] = [];
  const relay = createBrokerRelay({
    broker: {
      maxBytes: 2 ** 21,
      open(address, listener) {
        const channel = { address, listener, said: [] as Envelope[], isOpen: true };
        channels.push(channel);
        return {
          send: (_, message) => void channel.said.push(readEnvelope(message) as Envelope),
          forget: (to) => void (to.end === 'agent' && forgotten.push(to.link)),
          close() {
            channel.isOpen = false;
          },
        };
      },
      [Symbol.dispose]() {},
    },
    sessions: {
      join(asked, socket) {
        joined.push(asked.id);
        socket.listen({ message() {}, full() {}, drained() {}, closed() {} });
        return undefined;
      },
      end() {},
      hasAgent: () => false,
    },
    failsFast: true,
    isAlone: () => false,
    clock,
    log: silentLog,
  });
  const last = () => {
    const channel = channels.at(-1);
    if (!channel) throw new Error('nothing listens');
    return channel;
  };
  return { clock, relay, channels, last, joined, forgotten };
}

/** An agent whose link the other replica has answered. */
function createConnected(kind: 'exec' | 'log') {
  const replica = createReplica();
  const agent = createFakeSocket();
  replica.relay.connect(agent, '10.0.0.1:1', { node: 'n', id: 's', kind, microservice: undefined });
  const { listener, said } = replica.last();
  listener.up();
  const link = said[0]?.link ?? '';
  /** The other replica has taken this much. */
  const taken = (bytes: number) => listener.message(writeEnvelope({ link, op: 'taken', seq: 0, taken: bytes }));
  taken(0);
  const frames = () => said.filter((one) => one.op === 'frame');
  const typed = (type: number) => frames().filter(({ messageType }) => messageType === type);
  const sum = () => frames().reduce((all, { body }) => all + body.length + 256, 0);
  return { ...replica, agent, taken, frames, typed, sum };
}

describe('the agent of a log that the other replica takes too slowly', () => {
  test('has its lines left out with one LOG_ERROR each time, and is read on', () => {
    const { agent, taken, typed, sum } = createConnected('log');
    for (let episode = 1; episode <= 2; episode++) {
      for (let i = 0; i < 1_000; i++) agent.frame(T.LOG_LINE, 'x'.repeat(1_000));
      // One of the agent's own is left out as its lines are.
      agent.frame(T.LOG_ERROR, 'cannot be read');
      agent.frame(T.LOG_LINE, 'x');
      expect(sum()).toBeLessThan(episode * 300 * 1024);
      expect(typed(T.LOG_ERROR)).toHaveLength(episode);
      // What is no line is never left out.
      agent.frame(T.LOG_STOP);
      expect(typed(T.LOG_STOP)).toHaveLength(episode);
      taken(sum());
      const before = typed(T.LOG_LINE).length;
      agent.frame(T.LOG_LINE, 'again');
      expect(typed(T.LOG_LINE)).toHaveLength(before + 1);
    }
    expect(agent.seen).toEqual(['pause', 'resume']);
  });

  test('has everything left out that is not its end, of whatever type, with that one LOG_ERROR', () => {
    const { agent, frames, sum, typed } = createConnected('log');
    for (let i = 0; i < 1_000; i++) {
      agent.frame(T.LOG_LINE, 'x'.repeat(1_000));
      agent.frame(T.STDOUT, 'x'.repeat(1_000));
      agent.frame(99 as FrameType, 'x'.repeat(1_000));
      agent.listener.message(Buffer.alloc(1_000, 0xc1), true);
    }
    expect(sum()).toBeLessThan(300 * 1024);
    expect(typed(T.LOG_ERROR)).toHaveLength(1);
    const before = frames().length;
    agent.frame(T.CLOSE, 'done');
    agent.frame(T.LOG_STOP);
    expect(frames()).toHaveLength(before + 2);
  });

  test('is stopped instead when it is a terminal, and nothing of that is left out', () => {
    const { agent, taken, typed, sum } = createConnected('exec');
    const isPaused = () => agent.seen.at(-1) === 'pause';
    for (let i = 0; !isPaused() && i < 1_000; i++) agent.frame(T.STDOUT, 'x'.repeat(1_000));
    expect(isPaused()).toBe(true);
    expect(sum()).toBeLessThan(260 * 1024);
    expect(typed(T.LOG_ERROR)).toEqual([]);
    taken(sum());
    expect(agent.seen.at(-1)).toBe('resume');
  });
});

describe('an agent that takes no more', () => {
  test('stops the sender also over a link that is made again meanwhile, until it takes more', async () => {
    const replica = createConnected('exec');
    const { agent, clock, channels } = replica;
    agent.listener.full();
    replica.last().listener.down('the broker is away');
    await clock.advance(1_000);
    expect(channels).toHaveLength(2);
    const { listener, said } = replica.last();
    listener.up();
    const link = said[0]?.link ?? '';
    const body = encodeFrame({ type: T.STDIN, data: Buffer.alloc(1_024, 'x') });
    for (let seq = 0; seq < 300; seq++)
      listener.message(writeEnvelope({ link, op: 'frame', messageType: T.STDIN, seq, hasMore: false, body }));
    const taken = () => said.reduce((most, one) => (one.op === 'taken' ? Math.max(most, one.taken) : most), 0);
    await clock.advance(LINK_TIMES.sign);
    expect(taken()).toBe(0);
    expect(agent.seen.filter((one) => one.startsWith('STDIN'))).toEqual([]);
    agent.listener.drained();
    expect(taken()).toBeGreaterThan(256 * 1024);
    expect(agent.seen.filter((one) => one.startsWith('STDIN'))).toHaveLength(300);
  });
});

describe('an agent whose session answers nothing', () => {
  test('is sent away with 1013 after 5 s, asked for at most once in a second', async () => {
    const { clock, relay, last } = createReplica();
    const agent = createFakeSocket();
    relay.connect(agent, '10.0.0.1:1', { node: 'n', id: 's', kind: 'exec', microservice: undefined });
    last().listener.up();
    await clock.advance(4_999);
    expect(agent.seen).toEqual(['pause']);
    expect(last().said.filter(({ op }) => op === 'join')).toHaveLength(5);
    await clock.advance(1);
    expect(agent.seen).toEqual(['pause', 'close 1013']);
    expect(last().isOpen).toBe(false);
  });

  test('listens at the broker eight times in these 5 s at most when that breaks each time', async () => {
    const { clock, relay, channels, last } = createReplica();
    const agent = createFakeSocket();
    relay.connect(agent, '10.0.0.1:1', { node: 'n', id: 's', kind: 'exec', microservice: undefined });
    for (let ms = 0; ms < 5_000; ms += 10) {
      const { isOpen, listener } = last();
      if (isOpen) {
        listener.up();
        listener.down('refused');
      }
      await clock.advance(10);
    }
    expect(agent.seen.at(-1)).toBe('close 1013');
    expect(agent.seen).not.toContain('resume');
    expect(channels.length).toBeGreaterThan(3);
    expect(channels.length).toBeLessThanOrEqual(8);
    await clock.advance(LINK_TIMES.silent);
    expect(channels.every(({ isOpen }) => !isOpen)).toBe(true);
  });
});

describe('the end of the user', () => {
  const join = (link: string, id = 's') =>
    writeEnvelope({ link, op: 'join', kind: 'exec', asked: JSON.stringify({ node: 'n', id, kind: 'exec' }) });

  test('lets an agent join once, however often it asks', () => {
    const { relay, last, joined } = createReplica();
    relay.expect('s', 'exec');
    const { listener } = last();
    listener.up();
    for (let i = 0; i < 3; i++) listener.message(join('a'));
    expect(joined).toEqual(['s']);
  });

  test('refuses an agent that asks for another session', () => {
    const { relay, last, joined } = createReplica();
    relay.expect('s', 'exec');
    const { listener, said } = last();
    listener.up();
    listener.message(join('a', 'other'));
    expect(joined).toEqual([]);
    expect(said).toMatchObject([{ op: 'close', code: 1008, closeAck: false }]);
  });

  test('tells a link that it does not know once to connect again, and answers no answer', () => {
    const { relay, last } = createReplica();
    relay.expect('s', 'exec');
    const { listener, said } = last();
    listener.up();
    const unknown = { link: 'lost', seq: 3 };
    listener.message(
      writeEnvelope({ ...unknown, op: 'frame', messageType: 1, hasMore: false, body: Buffer.from('x') }),
    );
    expect(said).toMatchObject([{ link: 'lost', op: 'close', code: 1013, closeAck: true }]);
    listener.message(writeEnvelope({ ...unknown, op: 'close', closeAck: true, code: 1013, reason: '' }));
    expect(said).toHaveLength(1);
  });

  test('forgets at the broker each link that is over', () => {
    const { relay, last, forgotten } = createReplica();
    relay.expect('s', 'exec');
    const { listener } = last();
    listener.up();
    for (const link of ['a', 'b']) listener.message(join(link));
    expect(forgotten).toEqual([]);
    for (const link of ['a', 'b', 'unknown'])
      listener.message(writeEnvelope({ link, op: 'close', seq: 0, closeAck: false, code: 1000, reason: '' }));
    expect(forgotten).toEqual(['a', 'b']);
    // One that it does not know gets an answer, and is forgotten with that.
    listener.message(writeEnvelope({ link: 'lost', op: 'taken', seq: 3, taken: 0 }));
    expect(forgotten).toEqual(['a', 'b', 'lost']);
  });

  test('has 16 links at most, and answers 16 that it does not know, whatever others write to the broker', async () => {
    const { clock, relay, last, joined } = createReplica();
    relay.expect('s', 'exec');
    const { listener, said } = last();
    listener.up();
    for (let i = 0; i < 1_000; i++) listener.message(join(`joins-${i}`));
    expect(joined).toHaveLength(16);
    const answers = () => said.filter((one) => one.op === 'close').length;
    for (let i = 0; i < 1_000; i++)
      listener.message(writeEnvelope({ link: `unknown-${i}`, op: 'taken', seq: 3, taken: 0 }));
    expect(answers()).toBe(16);
    // When they are silent, an agent joins again.
    await clock.advance(LINK_TIMES.silent);
    listener.message(join('later'));
    expect(joined).toHaveLength(17);
    listener.message(writeEnvelope({ link: 'lost', op: 'taken', seq: 3, taken: 0 }));
    expect(answers()).toBe(17);
  });

  test('listens until the session and its links are over', async () => {
    const { clock, relay, last } = createReplica();
    const stop = relay.expect('s', 'exec');
    const channel = last();
    channel.listener.up();
    channel.listener.message(join('a'));
    stop();
    expect(channel.isOpen).toBe(true);
    // A further one is sent away.
    channel.listener.message(join('b'));
    expect(channel.said.at(-1)).toMatchObject({ link: 'b', op: 'close', code: 1013 });
    await clock.advance(LINK_TIMES.silent);
    expect(channel.isOpen).toBe(false);
  });
});
