import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Application } from '../api/v3/index.ts';
import { createMemoryDependencies } from './_memory.ts';
import { createNamed, DELETE_WAIT_MS, deleteObject, NAME_WAIT_MS } from './deletion.ts';
import { errorReply } from './errors.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const { signal } = new AbortController();
const application = (finalizers: string[] = []): Application => ({
  apiVersion: 'skerry.dev/v3',
  kind: 'Application',
  metadata: { name: 'plant', finalizers },
  spec: { isActivated: true },
});
const setup = async (finalizers?: string[]) => {
  const { applications } = createMemoryDependencies();
  const old = await applications.create(application(finalizers), signal);
  const end = async () => {
    const now = (await applications.read('plant', signal)) as Application;
    const { finalizers: _, ...metadata } = now.metadata;
    await applications.delete(await applications.replace({ ...now, metadata }, signal), signal);
  };
  const create = () =>
    createNamed(applications, { kind: 'application', name: 'plant' }, async () => application(), signal);
  return { applications, old, end, create };
};
/** AbortSignal.timeout does not obey fake timers. */
beforeEach(() => {
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
    expect(Number.isInteger(ms), 'as the real one demands').toBe(true);
    const controller = new AbortController();
    setTimeout(() => controller.abort(), ms);
    return controller.signal;
  });
});
afterEach(() => void vi.restoreAllMocks());

test('a deletion is answered as soon as the object is gone', async () => {
  const { applications, old, end } = await setup(['held']);
  const answered = deleteObject(applications, old, signal);
  await vi.advanceTimersByTimeAsync(DELETE_WAIT_MS / 2);
  await end();
  await answered;
  expect(vi.getTimerCount()).toBe(1);
});

test('a deletion that machines hold is answered after three seconds', async () => {
  const { applications, old } = await setup(['held']);
  const answered = vi.fn();
  void deleteObject(applications, old, signal).then(answered);
  await vi.advanceTimersByTimeAsync(DELETE_WAIT_MS - 1);
  expect(answered).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(answered).toHaveBeenCalled();
});

test('a name that is not given up within ten seconds is refused with 409, BEING_DELETED and Retry-After', async () => {
  const { applications, old, create } = await setup(['held']);
  await applications.delete(old, signal);
  const refused = create().catch(errorReply);
  await vi.advanceTimersByTimeAsync(NAME_WAIT_MS);
  expect(await refused).toMatchObject({
    status: 409,
    headers: { 'retry-after': '5' },
    body: { code: 'BEING_DELETED', message: expect.stringContaining('the application plant is being deleted') },
  });
});

test('a name that is given up meanwhile goes to who waits, and to one of two who wait', async () => {
  const { applications, old, end, create } = await setup(['held']);
  await applications.delete(old, signal);
  const both = Promise.allSettled([create(), create()]);
  await vi.advanceTimersByTimeAsync(NAME_WAIT_MS / 2);
  await end();
  const answers = await both;
  expect(answers.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  const lost = answers.find((one) => one.status === 'rejected');
  expect(errorReply(lost?.reason)).toMatchObject({ status: 409, body: { code: 'DUPLICATE_NAME' } });
});

test('what is protected is refused with 409 and stays, until its annotation is gone or says false', async () => {
  const { applications, old } = await setup();
  const marked = (value: string) => {
    const metadata = { ...old.metadata, annotations: { 'skerry.dev/protected': value } };
    return { ...old, metadata };
  };
  for (const value of ['true', ''])
    expect(await deleteObject(applications, marked(value), signal).catch(errorReply)).toMatchObject({
      status: 409,
      body: {
        code: 'PROTECTED',
        message: expect.stringContaining('Application plant: it is protected against deletion'),
      },
    });
  expect(await applications.read('plant', signal)).toBeDefined();
  await deleteObject(applications, marked('false'), signal);
  expect(await applications.read('plant', signal)).toBeUndefined();
});
