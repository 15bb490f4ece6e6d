import type { Socket } from 'node:net'
import { Inbox } from '../wire.ts'

/** An accepted connection. All waits on it end with it, so a script never outlives its reader. */
export class Connection {
  readonly number: number
  readonly inbox = new Inbox()
  /** The bytes that the kernel has accepted so far. */
  sent = 0
  isOver = false
  /** Called once when the peer closes or resets before we hang up. */
  onLeft = () => {}
  readonly #socket: Socket
  #release = () => {}

  constructor(socket: Socket, number: number) {
    this.#socket = socket
    this.number = number
    socket.setNoDelay(true)
    socket.on('data', bytes => this.inbox.push(Buffer.from(bytes)))
    for (const event of ['end', 'error', 'close']) socket.on(event, () => this.#leave())
  }

  /** Writes, and resolves when the kernel has the bytes: the script waits for a slow reader. */
  async write(bytes: string | Uint8Array): Promise<void> {
    const chunk = Buffer.from(bytes)
    if (chunk.length === 0) return
    await this.#until(go => this.#socket.write(chunk, go))
    if (!this.isOver) this.sent += chunk.length
  }

  pause(ms: number): Promise<void> {
    return this.#until(go => (ms > 0 ? setTimeout(go, ms).unref() : setImmediate(go)))
  }

  hold(gate: Promise<void>): Promise<void> {
    return this.#until(go => gate.then(go))
  }

  /** Ends the connection from our side: `fin` after what was written, `rst` at once. */
  async hangUp(how: 'fin' | 'rst'): Promise<void> {
    this.#finish()
    if (how === 'fin') this.#socket.end()
    else this.#socket.resetAndDestroy()
  }

  /** Drops the connection, whatever is happening on it. */
  drop() {
    this.#finish()
    this.#socket.destroy()
  }

  // A connection plays one step at a time, so there is one waiting step to release at most.
  #until(start: (go: () => void) => void): Promise<void> {
    return new Promise(resolve => {
      if (this.isOver) return resolve()
      this.#release = resolve
      start(() => resolve())
    })
  }

  #leave() {
    if (this.isOver) return
    this.#finish()
    this.#socket.destroy()
    this.onLeft()
  }

  #finish() {
    this.isOver = true
    this.inbox.end()
    this.#release()
  }
}
