import { translated } from './errors.ts';
import { GrpcConnection } from './wire/grpc.ts';
import { decode, encode, type Given, type Message, type Of } from './wire/protobuf.ts';

/** The namespace of containerd in which CRI keeps what it makes, and the agent's own: the records of its containers. */
export const CRI_NAMESPACE = 'k8s.io';
export const RECORD_NAMESPACE = 'skerry';

/** A call of a service: its path, and the messages both ways. */
export interface ContainerdMethod<Q extends Message, A extends Message> {
  readonly path: string;
  readonly request: Q;
  readonly answer: A;
}

export interface ContainerdCallOptions {
  namespace?: string;
  signal?: AbortSignal | undefined;
  /** milliseconds; 0: as long as it takes */
  deadline?: number;
  /** keeps written content until it ends */
  lease?: string;
}

const DEADLINE = 30_000;

/** A containerd at a socket. Its errors are EngineErrors. */
export class Containerd {
  readonly url: string;
  readonly #connection: GrpcConnection;

  constructor(url: string) {
    this.url = url;
    this.#connection = new GrpcConnection(url.replace(/^unix:\/\//, ''));
  }

  /** Sends a request, and returns the one answer. */
  async call<Q extends Message, A extends Message>(
    method: ContainerdMethod<Q, A>,
    request: Given<Of<Q>>,
    options: ContainerdCallOptions = {},
  ): Promise<Of<A>> {
    let answer: Of<A> | undefined;
    for await (const each of this.exchange(method, [request], { deadline: DEADLINE, ...options })) answer = each;
    return answer ?? decode(method.answer, Buffer.alloc(0));
  }

  /** Sends requests, and yields the answers as they come. */
  async *exchange<Q extends Message, A extends Message>(
    { path, request, answer }: ContainerdMethod<Q, A>,
    requests: AsyncIterable<Given<Of<Q>>> | Iterable<Given<Of<Q>>>,
    { namespace = CRI_NAMESPACE, signal, deadline = 0, lease }: ContainerdCallOptions = {},
  ): AsyncGenerator<Of<A>> {
    const headers = { 'containerd-namespace': namespace, ...(lease && { 'containerd-lease': lease }) };
    async function* encoded() {
      for await (const each of requests) yield encode(request, each);
    }
    try {
      for await (const each of this.#connection.call({ path, headers, signal, deadline }, encoded()))
        yield decode(answer, each);
    } catch (error) {
      throw translated(error, this.url);
    }
  }

  /** Ends the connection; the next call makes another. */
  close(): void {
    this.#connection.close();
  }
}
