import type { FrameListener, FrameSocket } from '../../../src/session-client/socket.ts';
import { FRAME_TYPES, type Frame } from '../../../src/wire/frames.ts';
import { type Activation, CLOSE_CODES } from '../../../src/wire/sessions.ts';

/** What an exec session of this machine is about. */
export interface LocalExec {
  id: string;
  /** uuid */
  microservice: string;
  /** a shell when absent */
  command?: readonly string[];
  tty?: boolean;
}

/**
 * The socket of an exec session whose user is on this machine. There is no controller in between: what one would say to both ends is
 * said here, and a connection that is lost does not return.
 */
export function localSocket(
  accepted: (listener: FrameListener) => FrameSocket,
  { id, microservice }: LocalExec,
  listener: FrameListener,
): FrameSocket {
  const socket = accepted({
    frame: listener.frame,
    closed: (end) => listener.closed({ ...end, code: CLOSE_CODES.ended }),
  });
  const about: Activation = { sessionId: id, microserviceUuid: microservice };
  const activation: Frame = { type: FRAME_TYPES.ACTIVATION, data: Buffer.from(JSON.stringify(about)) };
  void socket.send(activation);
  // From now on Ctrl-C is a key for the program.
  void socket.send({ type: FRAME_TYPES.STDERR, data: Buffer.from('Connected.\r\n'), notice: true });
  // The session has its socket only when this function has returned.
  queueMicrotask(() => listener.frame(activation));
  return {
    get isOpen() {
      return socket.isOpen;
    },
    send(frame) {
      const sent = socket.send(frame);
      if (frame.type === FRAME_TYPES.CLOSE) socket.close();
      return sent;
    },
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close: (linger) => socket.close(linger),
    leave: () => socket.leave(),
    drop: () => socket.drop(),
  };
}
