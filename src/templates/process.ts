import { RenderError, renderDocument } from './engine.ts';
import type { FromProcess, RenderFailure, ToProcess } from './messages.ts';

/**
 * The process that renders, a child of the controller: it has little memory, no environment and no files, answers one document
 * at a time, and ends with the controller.
 */
const waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
let asked = 0;

const send = (message: FromProcess) => process.send?.(message);

process.on('message', (message: ToProcess) => {
  if ('render' in message) {
    void renderDocument(message.render, (filter, input) => {
      const lookUp = ++asked;
      send({ lookUp, filter, input });
      return new Promise((resolve, reject) => waiting.set(lookUp, { resolve, reject }));
    }).then(
      (done) => send({ done }),
      (error) => send({ failed: failureOf(error) }),
    );
    return;
  }
  const look = waiting.get(message.answer);
  waiting.delete(message.answer);
  if (message.failed === undefined) look?.resolve(message.value);
  else look?.reject(new Error(message.failed));
});
process.on('disconnect', () => process.exit(0));

const failureOf = (error: unknown): RenderFailure =>
  error instanceof RenderError ? error.failure : { path: [], message: 'cannot be rendered' };

if (process.send) send({ ready: true });
else console.log('skerry-templates: renders templates for the controller (skerry), which starts it');
