import { aroundEngineCalls } from './_engine-calls.ts';

/**
 * Blocks the agent's own program at a call of its engine, so that a test can end the engine at that moment: `node --import _blocked-call.ts main.ts start`.
 *
 *     parent -> { hold: 'removeImage', when: 'before' }    answered by 'armed'; the next such call says 'blocked', once
 *     parent -> 'go'                                       the call continues
 *     parent -> { hold: '' }                               no call is blocked
 *
 * Before and after a call the program waits; during a call only its parent knows that it has begun.
 */
interface Hold {
  hold: string;
  when: 'before' | 'during' | 'after';
}

let armed: Hold | undefined;
let release: (() => void) | undefined;

process.on('message', (message: Hold | 'go') => {
  if (message === 'go') return release?.();
  armed = message;
  return message.hold && process.send?.('armed');
});
process.channel?.unref();

const isAt = (name: string, when: Hold['when']) => armed?.hold === name && armed.when === when;

function reached(): Promise<void> {
  armed = undefined;
  const { promise, resolve } = Promise.withResolvers<void>();
  release = resolve;
  process.send?.('blocked');
  return promise;
}

const CALLS = [
  ...['pull', 'loadImages', 'listImages', 'imageUses', 'imageBytes', 'removeImage', 'allBinds'],
  ...['create', 'start', 'stop', 'kill', 'rename', 'remove'],
];
aroundEngineCalls(CALLS, async (name, call) => {
  if (isAt(name, 'before')) await reached();
  const begun = call();
  if (isAt(name, 'during')) void reached();
  // A call that fails has an end as well, and may have had an effect.
  try {
    return await begun;
  } finally {
    if (isAt(name, 'after')) await reached();
  }
});
