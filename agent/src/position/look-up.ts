import { shownUrl } from '../domain/position-lookup.ts';
import { exchange } from '../machine/http.ts';
import { errorText } from '../machine/log.ts';

/** ms for a whole answer, however slowly it comes. */
const PATIENCE = 15_000;
/** Bytes of an answer; a position has less than a hundred. */
const LONGEST = 64 * 1024;

/** The answer of an address. No redirect is followed. Throws an error that names the address without what may be a key in it. */
export async function askForPosition(text: string, signal: AbortSignal): Promise<string> {
  const url = new URL(text);
  const late = AbortSignal.timeout(PATIENCE);
  const request = {
    target: { origin: url },
    method: 'GET',
    path: `${url.pathname}${url.search}`,
    headers: { accept: 'application/json' },
    deadline: PATIENCE,
    signal: AbortSignal.any([signal, late]),
  };
  try {
    const { status, body } = await exchange(request, LONGEST);
    if (status !== 200) throw new Error(`status ${status}`);
    return body;
  } catch (error) {
    const why = late.aborted ? `no whole answer within ${PATIENCE / 1000} s` : errorText(error);
    throw new Error(`${shownUrl(text)}: ${why}`, { cause: error });
  }
}
