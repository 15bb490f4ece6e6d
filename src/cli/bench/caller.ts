import { Connection } from './connection.ts'
import { createAnswerReader } from './wire.ts'

/** Hears whether a call was answered well. */
type Done = (isGood: boolean) => void

/** A client that makes one call at a time, on a connection that it keeps. */
export class Caller {
  readonly #url: string
  #connection: Connection | undefined
  #done: Done | undefined

  constructor(url: string) {
    this.#url = url
  }

  /** Makes a call. The one before must be done. A connection that was lost is opened again. */
  call(request: Buffer, done: Done): void {
    this.#done = done
    if (this.#connection) this.#connection.send(request)
    else this.#open(request)
  }

  #open(request: Buffer): void {
    const read = createAnswerReader()
    this.#connection = new Connection(this.#url, {
      open: connection => connection.send(request),
      data: bytes => {
        const isGood = read(bytes)
        if (isGood !== undefined) this.#end(isGood)
      },
      close: () => {
        this.#connection = undefined
        this.#end(false)
      },
    })
  }

  /** Leaves. A call that is not done has failed. */
  leave(): void {
    this.#connection?.leave()
    this.#end(false)
  }

  #end(isGood: boolean): void {
    const done = this.#done
    this.#done = undefined
    done?.(isGood)
  }
}
