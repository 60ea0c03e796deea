import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Application } from '../../api/v3/index.ts';
import { createMemoryDependencies } from '../_memory.ts';
import { errorReply } from '../contract/errors.ts';
import { createNamed, DELETE_WAIT_MS, deleteObject, NAME_WAIT_MS } from './deletion.ts';

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
/** Fake timers do not affect AbortSignal.timeout. */
beforeEach(() => {
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
    expect(Number.isInteger(ms), 'as the real one demands').toBe(true);
    const controller = new AbortController();
    setTimeout(() => controller.abort(), ms);
    return controller.signal;
  });
});
afterEach(() => void vi.restoreAllMocks());

test('DELETE responds as soon as the object is gone', async () => {
  const { applications, old, end } = await setup(['held']);
  const answered = deleteObject(applications, old, signal);
  await vi.advanceTimersByTimeAsync(DELETE_WAIT_MS / 2);
  await end();
  await answered;
  expect(vi.getTimerCount()).toBe(1);
});

test('DELETE responds after three seconds while the deletion is pending on a finalizer', async () => {
  const { applications, old } = await setup(['held']);
  const answered = vi.fn();
  void deleteObject(applications, old, signal).then(answered);
  await vi.advanceTimersByTimeAsync(DELETE_WAIT_MS - 1);
  expect(answered).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(answered).toHaveBeenCalled();
});

test('a create gets 409 BEING_DELETED with Retry-After when the deletion of the object with that name takes longer than ten seconds', async () => {
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

test('one of two creates that wait for a name gets it when the object with that name is gone', async () => {
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

test('DELETE of a protected object gets 409, until its annotation is removed or false', async () => {
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
