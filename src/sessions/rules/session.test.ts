import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Frame, type FrameType, FRAME_TYPES as T } from '../../wire/frames.ts';
import { CLOSE_CODES, SESSION_TIMES } from '../../wire/sessions.ts';
import {
  beginSession,
  deadline,
  type Effect,
  type Session,
  type SessionEvent,
  type SessionTarget,
  step,
} from './session.ts';

const EXEC: SessionTarget = { kind: 'exec', node: 'n', microservice: 'm' };
const LOG: SessionTarget = { kind: 'log', node: 'n', microservice: 'm', tail: { lines: 100, follow: true } };
const NODE_LOG: SessionTarget = { kind: 'log', node: 'n', tail: { lines: 5, follow: false } };
const NAMES = Object.fromEntries(Object.entries(T).map(([name, type]) => [type, name]));

/** Effects as short texts: `user STDERR connected`, `close agent 1000`, `pause user`. */
const shown = (effect: Effect): string => {
  if (effect.do === 'send') return `${effect.to} ${NAMES[effect.frame.type]} ${Buffer.from(effect.frame.data)}`.trim();
  if (effect.do === 'close') return `close ${effect.end} ${effect.code}`;
  if (effect.do === 'list') return 'list';
  return effect.do === 'over' ? `over: ${effect.reason}` : `${effect.do} ${effect.end}`;
};

const frame = (type: FrameType, text = '', more: Partial<Frame> = {}): Frame => ({
  type,
  data: Buffer.from(text),
  ...more,
});
const sent = (from: 'user' | 'agent', type: FrameType, text = '', more: Partial<Frame> = {}): SessionEvent => ({
  type: 'frame',
  from,
  frame: frame(type, text, more),
});
const JOINED: SessionEvent = { type: 'joined' };
const AGENT_LEFT: SessionEvent = { type: 'left', end: 'agent' };

const moment = (ms: number) => ({ ms, unixMs: ms });

/** A session and the effects of the last event; the clock is in the hand of the test. */
function drive(target: SessionTarget = EXEC) {
  const begun = beginSession('s', target, moment(0));
  let { session } = begun;
  let now = 0;
  return {
    begun: begun.effects,
    get session(): Session {
      return session;
    },
    at(ms: number) {
      now = ms;
      return this;
    },
    raw(event: SessionEvent): readonly Effect[] {
      const done = step(session, event, moment(now));
      session = done.session;
      return done.effects;
    },
    on(...events: SessionEvent[]): string[] {
      return events.flatMap((event) => this.raw(event)).map(shown);
    },
  };
}

test.each<[sentence: string, before: SessionEvent[], last: SessionEvent, reason: string]>([
  ['without a fault', [JOINED], sent('user', T.CLOSE), 'the user ended the session'],
  [
    'because its connection was lost',
    [JOINED, AGENT_LEFT],
    sent('user', T.CLOSE),
    'the connection to the node was lost, and the user ended the session',
  ],
  [
    'because its connection was lost, without a word',
    [JOINED, AGENT_LEFT],
    { type: 'left', end: 'user' },
    'the connection to the node was lost, and the user left',
  ],
  [
    'before its agent connected',
    [],
    sent('user', T.CLOSE),
    'the agent had not connected, and the user ended the session',
  ],
])('records of a session that a user ends %s say so', (_, before, last, reason) => {
  const session = drive();
  session.on(...before);
  expect(session.on(last).at(-1)).toBe(`over: ${reason}`);
});

describe('a log whose agent was lost and returned', () => {
  const missing = 'user LOG_ERROR the connection to the node was lost meanwhile, lines may be missing';

  test('says that lines may be missing', () => {
    const session = drive(NODE_LOG);
    expect(session.on(JOINED)).not.toContain(missing);
    session.on(AGENT_LEFT);
    expect(session.on(JOINED)).toContain(missing);
  });

  test('says it once to a user who takes nothing, however often the agent returns', () => {
    const session = drive(LOG);
    session.on(JOINED, { type: 'full', end: 'user' });
    const again = () => session.on(AGENT_LEFT, JOINED).filter((one) => one.startsWith('user'));
    expect([...again(), ...again(), ...again()]).toEqual([missing]);
  });
});

describe('an exec session', () => {
  test('begins with ACTIVATION and a notice for the user, and a list for the node', () => {
    const { begun } = drive();
    expect(begun.map(shown)).toEqual([
      'user ACTIVATION {"sessionId":"s","microserviceUuid":"m"}',
      'user STDERR Waiting for the agent of the node to connect.',
      'list',
    ]);
    expect(begun[0]).toMatchObject({ frame: { sessionId: 's', execId: 's', microserviceUuid: 'm' } });
    expect(begun[1]).toMatchObject({ frame: { notice: true } });
  });

  test('becomes active when the agent joins: it gets ACTIVATION before what the user has typed', () => {
    const session = drive();
    expect(session.on(sent('user', T.STDIN, 'ls\n'))).toEqual([]);
    expect(session.at(5).on(JOINED)).toEqual([
      'agent ACTIVATION {"sessionId":"s","microserviceUuid":"m","execId":"s","timestamp":5}',
      'user STDERR Connected.',
      'agent STDIN ls',
    ]);
  });

  test('passes bytes both ways, and fills in what a frame of a user lacks', () => {
    const session = drive();
    session.on(JOINED);
    const [effect] = session.at(7).raw(sent('user', T.STDIN, 'x'));
    expect(effect).toMatchObject({
      to: 'agent',
      frame: { execId: 's', sessionId: 's', microserviceUuid: 'm', timestamp: 7 },
    });
    const output = frame(T.STDOUT, 'y');
    expect(session.raw({ type: 'frame', from: 'agent', frame: output })).toEqual([
      { do: 'send', to: 'user', frame: output },
    ]);
  });

  test('a user cannot speak for another session', () => {
    const session = drive();
    session.on(JOINED);
    const [effect] = session.raw(
      sent('user', T.STDIN, 'x', { sessionId: 'other', execId: 'other', microserviceUuid: 'other' }),
    );
    expect(effect).toMatchObject({ frame: { execId: 's', sessionId: 's', microserviceUuid: 'm' } });
  });

  test.each<[string, SessionEvent, string[]]>([
    ['keepalive comes back to the user only', sent('user', T.CONTROL, 'keepalive'), ['user CONTROL keepalive']],
    [
      'a resize goes to the agent',
      sent('user', T.CONTROL, '{"resize":{"cols":1,"rows":2}}'),
      ['agent CONTROL {"resize":{"cols":1,"rows":2}}'],
    ],
    ['an unknown CONTROL goes to the agent', sent('user', T.CONTROL, 'later'), ['agent CONTROL later']],
    ['an exit code goes to the user', sent('agent', T.CONTROL, '{"exitCode":3}'), ['user CONTROL {"exitCode":3}']],
    ['a frame of another session is ignored', sent('agent', T.STDOUT, 'x', { execId: 'other' }), []],
    ['a frame of another microservice is ignored', sent('agent', T.STDOUT, 'x', { microserviceUuid: 'other' }), []],
    ['an agent sends no STDIN', sent('agent', T.STDIN, 'x'), []],
    ['an agent sends no ACTIVATION', sent('agent', T.ACTIVATION, '{}'), []],
    ['a user sends no STDOUT', sent('user', T.STDOUT, 'x'), []],
    ['lines belong to logs', sent('agent', T.LOG_LINE, 'x'), []],
    [
      'CLOSE of the user ends both sides',
      sent('user', T.CLOSE, 'bye'),
      [
        'user CLOSE the user ended the session',
        'agent CLOSE the user ended the session',
        'close user 1000',
        'close agent 1000',
        'list',
        'over: the user ended the session',
      ],
    ],
    [
      'CLOSE of the agent reaches the user',
      sent('agent', T.CLOSE, 'exited with 0'),
      ['user CLOSE exited with 0', 'close user 1000', 'close agent 1000', 'list', 'over: the agent ended the session'],
    ],
    [
      'a user that leaves ends it',
      { type: 'left', end: 'user' },
      [
        'user CLOSE the user left',
        'agent CLOSE the user left',
        'close user 1000',
        'close agent 1000',
        'list',
        'over: the user left',
      ],
    ],
    [
      'a replica that shuts down ends it with 1001',
      { type: 'stop', code: CLOSE_CODES.goingAway, reason: 'r' },
      ['user CLOSE r', 'agent CLOSE r', 'close user 1001', 'close agent 1001', 'list', 'over: r'],
    ],
  ])('active: %s', (_, event, effects) => {
    const session = drive();
    session.on(JOINED);
    expect(session.on(event)).toEqual(effects);
  });

  test('nothing of an agent counts before it has joined', () => {
    expect(drive().on(sent('agent', T.STDOUT, 'x'), sent('agent', T.CLOSE, 'x'))).toEqual([]);
  });

  test('ends with 1008 when the agent has not joined in time', () => {
    const session = drive();
    expect(deadline(session.session)).toBe(60_000);
    expect(session.at(59_999).on({ type: 'clock' })).toEqual([]);
    expect(session.at(60_000).on({ type: 'clock' })).toEqual([
      'user CLOSE the node is not connected: its agent did not connect in time',
      'close user 1008',
      'close agent 1000',
      'list',
      'over: the node is not connected: its agent did not connect in time',
    ]);
    expect(deadline(session.session)).toBeUndefined();
  });

  test('says nothing of an agent that is lost and returns to a user who takes nothing', () => {
    const session = drive();
    session.on(JOINED, { type: 'full', end: 'user' });
    expect(session.on(AGENT_LEFT)).toEqual(['list']);
    expect(session.on(JOINED).filter((one) => one.startsWith('user'))).toEqual([]);
  });

  test('continues when the agent returns within the window, with what was typed meanwhile', () => {
    const session = drive();
    session.on(JOINED);
    expect(session.at(1_000).on(AGENT_LEFT)).toEqual([
      'user STDERR \r\nThe connection to the node is lost. Waiting for it to return.',
      'list',
    ]);
    expect(session.session.attempt).toBe(2);
    expect(session.at(30_000).on(sent('user', T.STDIN, 'x'))).toEqual([]);
    expect(session.at(40_000).on(JOINED)).toEqual([
      'agent ACTIVATION {"sessionId":"s","microserviceUuid":"m","execId":"s","timestamp":40000,"resumed":true}',
      'user STDERR Connected again.',
      'agent STDIN x',
    ]);
    expect(session.session.phase).toBe('active');
  });

  test('ends when the agent does not return, also while the user types', () => {
    const session = drive();
    session.on(JOINED);
    session.at(1_000).on(AGENT_LEFT);
    session.at(60_000).on(sent('user', T.STDIN, 'x'));
    expect(deadline(session.session)).toBe(1_000 + SESSION_TIMES.resume);
    expect(session.at(61_000).on({ type: 'clock' })).toContain('over: the connection to the node did not return');
  });

  test('a second connection of the agent takes the place of a dead one', () => {
    const session = drive();
    session.on(JOINED);
    expect(session.at(9).on(JOINED)[0]).toContain('"resumed":true');
  });

  test('ends when neither side has sent anything for eight hours', () => {
    const session = drive();
    session.on(JOINED);
    session.at(1_000).on(sent('agent', T.STDOUT, 'x'));
    expect(deadline(session.session)).toBe(1_000 + 8 * 3_600_000);
  });

  test('a user who types without an agent is stopped at a bound, and continues once it is there', () => {
    const session = drive();
    const chunk = 'x'.repeat(40_000);
    expect(session.on(sent('user', T.STDIN, chunk))).toEqual([]);
    expect(session.on(sent('user', T.STDIN, chunk))).toEqual(['pause user']);
    expect(session.on(JOINED).at(-1)).toBe('resume user');
    expect(session.session.waiting).toEqual([]);
  });

  test('empty frames without an agent reach the bound as well', () => {
    const session = drive();
    let sentFrames = 0;
    while (!session.session.paused.user && sentFrames < 1_000)
      sentFrames += 1 + session.on(sent('user', T.STDIN)).length;
    expect(session.session.waiting.length).toBeLessThan(300);
  });

  test('a side that takes nothing stops the reading from the other one', () => {
    const session = drive();
    session.on(JOINED);
    expect(session.on({ type: 'full', end: 'user' })).toEqual(['pause agent']);
    expect(session.on({ type: 'full', end: 'user' })).toEqual([]);
    expect(session.on({ type: 'full', end: 'agent' })).toEqual(['pause user']);
    expect(session.on({ type: 'drained', end: 'user' })).toEqual(['resume agent']);
    expect(session.on({ type: 'drained', end: 'agent' })).toEqual(['resume user']);
  });

  test('a user that reads nothing stops the connection with which the agent returns, too', () => {
    const session = drive();
    session.on(JOINED, { type: 'full', end: 'user' });
    session.on(AGENT_LEFT);
    expect(session.on(JOINED).at(-1)).toBe('pause agent');
  });

  test('a user whose typing was stopped by the agent can type once the agent is lost', () => {
    const session = drive();
    session.on(JOINED, { type: 'full', end: 'agent' });
    expect(session.on(AGENT_LEFT).at(-1)).toBe('resume user');
  });
});

describe('a log session', () => {
  test('sends LOG_START to the user, and to the agent when it joins', () => {
    const session = drive(LOG);
    const start = 'LOG_START {"sessionId":"s","tailConfig":{"lines":100,"follow":true}}';
    expect(session.begun.map(shown)).toEqual([
      `user ${start}`,
      'user LOG_LINE waiting for the agent of the node to connect',
      'list',
    ]);
    expect(session.on(JOINED)).toEqual([`agent ${start}`, 'user LOG_LINE connected']);
    session.on(AGENT_LEFT);
    expect(session.on(JOINED)[0]).toContain('"resumed":true');
  });

  test('is about a microservice or about a node', () => {
    const about = (target: SessionTarget) => {
      const [first] = drive(target).begun;
      if (first?.do !== 'send') throw new Error('the first effect is no frame');
      const { microserviceUuid, iofogUuid } = first.frame;
      return { microserviceUuid, iofogUuid };
    };
    expect(about(LOG)).toEqual({ microserviceUuid: 'm' });
    expect(about(NODE_LOG)).toEqual({ iofogUuid: 'n' });
  });

  test.each<[string, SessionEvent, string[]]>([
    ['a line reaches the user', sent('agent', T.LOG_LINE, 'x'), ['user LOG_LINE x']],
    ['an error reaches the user', sent('agent', T.LOG_ERROR, 'x'), ['user LOG_ERROR x']],
    ['input of the user is ignored', sent('user', T.STDIN, 'x'), []],
    ['a CONTROL of the user does not reach the agent', sent('user', T.CONTROL, 'close'), []],
    [
      'the end of the log ends it',
      sent('agent', T.LOG_STOP),
      ['user LOG_STOP', 'close user 1000', 'close agent 1000', 'list', 'over: the agent ended the session'],
    ],
    [
      'a user that leaves stops the agent',
      { type: 'left', end: 'user' },
      [
        'user LOG_STOP the user left',
        'agent LOG_STOP the user left',
        'close user 1000',
        'close agent 1000',
        'list',
        'over: the user left',
      ],
    ],
  ])('active: %s', (_, event, effects) => {
    const session = drive(LOG);
    session.on(JOINED);
    expect(session.on(event)).toEqual(effects);
  });

  test('ends with LOG_ERROR and 1008 after two minutes without an agent', () => {
    const session = drive(LOG);
    expect(session.at(120_000).on({ type: 'clock' }).slice(0, 2)).toEqual([
      'user LOG_ERROR the node is not connected: its agent did not connect in time',
      'close user 1008',
    ]);
  });

  test('lines for a user that reads slowly are left out with one LOG_ERROR an episode, and the agent is not stopped', () => {
    const session = drive(LOG);
    session.on(JOINED);
    const lines = [1, 2, 3].map((n) => sent('agent', T.LOG_LINE, String(n)));
    const episode = ['user LOG_ERROR lines are left out, since they are read too slowly'];
    expect(session.on({ type: 'full', end: 'user' }, ...lines)).toEqual(episode);
    expect(session.on({ type: 'drained', end: 'user' }, ...lines)).toEqual([
      'user LOG_LINE 1',
      'user LOG_LINE 2',
      'user LOG_LINE 3',
    ]);
    expect(session.on({ type: 'full', end: 'user' }, ...lines)).toEqual(episode);
  });

  test('errors of an agent are left out as its lines are, and what only the controller says is ignored', () => {
    const session = drive(LOG);
    session.on(JOINED);
    const errors = [1, 2].map((n) => sent('agent', T.LOG_ERROR, String(n)));
    expect(session.on({ type: 'full', end: 'user' }, ...errors)).toHaveLength(1);
    expect(session.on(sent('agent', T.LOG_START, '{}'))).toEqual([]);
  });
});

test('a keepalive comes back without what else the user sent, and not to a user that reads nothing', () => {
  const session = drive(LOG);
  const long: SessionEvent = { type: 'frame', from: 'user', frame: frame(T.CONTROL, `keepalive${' '.repeat(900)}`) };
  expect(session.on(long)).toEqual(['user CONTROL keepalive']);
  expect(session.on({ type: 'full', end: 'user' }, long)).toEqual([]);
});

test('a message that is too long for the agent with its ids ends the session with 1009', () => {
  const session = drive(EXEC);
  session.on(JOINED);
  const long: SessionEvent = { type: 'frame', from: 'user', frame: { type: T.STDIN, data: Buffer.alloc(2 ** 20) } };
  const effects = session.on(long);
  expect(effects).toContain('close user 1009');
  expect(effects).toContain('close agent 1000');
});

test('a log without follow of an agent that keeps it open ends after five quiet seconds, with a word on why', () => {
  const session = drive({ ...LOG, tail: { lines: 100, follow: false }, endsWhenQuiet: true });
  session.on(JOINED);
  session.at(4_000).on(sent('agent', T.LOG_LINE, 'a'));
  expect(session.at(8_999).on({ type: 'clock' })).toEqual([]);
  const why = 'no line for 5 s: the log counts as whole, since the agent of this node does not say where it ends';
  expect(session.at(9_000).on({ type: 'clock' })).toEqual([
    `user LOG_LINE ${why}`,
    `user LOG_STOP ${why}`,
    `agent LOG_STOP ${why}`,
    'close user 1000',
    'close agent 1000',
    'list',
    `over: ${why}`,
  ]);
});

test('a log of an agent that keeps it open waits for the agent as long as any other', () => {
  const session = drive({ ...LOG, tail: { lines: 100, follow: false }, endsWhenQuiet: true });
  expect(deadline(session.session)).toBe(SESSION_TIMES.pending.log);
});

test('whatever happens in whatever order, a session ends once, closes both sides and then does nothing', () => {
  const type = fc.constantFrom(...Object.values(T));
  const end = fc.constantFrom('user' as const, 'agent' as const);
  const event: fc.Arbitrary<SessionEvent> = fc.oneof(
    fc.record({ type: fc.constant('frame' as const), from: end, frame: type.map((one) => frame(one, 'x')) }),
    fc.constant(JOINED),
    fc.record({ type: fc.constant('left' as const), end }),
    fc.record({ type: fc.constantFrom('full' as const, 'drained' as const), end }),
    fc.constant({ type: 'clock' } as const),
  );
  fc.assert(
    fc.property(
      fc.constantFrom(EXEC, LOG, NODE_LOG),
      fc.array(fc.tuple(event, fc.nat(90_000)), { maxLength: 60 }),
      (target, events) => {
        const session = drive(target);
        let now = 0;
        let ends = 0;
        let unpaired = { user: 0, agent: 0 };
        for (const [one, ms] of events) {
          now += ms;
          const wasOver = session.session.phase === 'over';
          const isPending = session.session.phase !== 'active' && one.type !== 'joined';
          const effects = session.at(now).raw(one);
          if (wasOver) expect(effects).toEqual([]);
          if (isPending) expect(effects.filter((effect) => effect.do === 'send' && effect.to === 'agent')).toEqual([]);
          for (const effect of effects) {
            if (effect.do === 'pause') unpaired = { ...unpaired, [effect.end]: unpaired[effect.end] + 1 };
            if (effect.do === 'resume') unpaired = { ...unpaired, [effect.end]: unpaired[effect.end] - 1 };
            if (effect.do === 'over') {
              ends++;
              expect(
                effects
                  .filter((other) => other.do === 'close')
                  .map(({ end: which }) => which)
                  .sort(),
              ).toEqual(['agent', 'user']);
            }
          }
          expect(unpaired.user).toBeGreaterThanOrEqual(0);
          expect(unpaired.user).toBeLessThanOrEqual(1);
          expect(session.session.waitingBytes).toBeLessThan(2 ** 21);
        }
        expect(ends).toBe(session.session.phase === 'over' ? 1 : 0);
        expect(deadline(session.session) === undefined).toBe(session.session.phase === 'over');
      },
    ),
    { numRuns: 500 },
  );
});
