import { toPrintable } from '../../../core/kernel/printable.ts'

/** Shows how far a transfer is. */
export interface Progress {
  /** Hands pieces on, and counts their bytes. */
  follow(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void>
  /** Clears the line. */
  close(): void
}

const CLEAR = '\r\u001b[K'

/** Opens a line of progress on stderr if that is a terminal, else nothing is shown. */
export function openProgress(
  name: string,
  size: number,
  { isTTY, write }: { isTTY: boolean; write(text: string): unknown } = {
    isTTY: process.stderr.isTTY,
    write: text => process.stderr.write(text),
  },
): Progress {
  let done = 0
  let shown = -1
  const show = () => {
    const percent = size === 0 ? 100 : Math.floor((100 * done) / size)
    if (!isTTY || percent === shown) return
    shown = percent
    write(`${CLEAR}${toPrintable(name)}  ${percent} %`)
  }
  return {
    async *follow(pieces) {
      for await (const piece of pieces) {
        done += piece.length
        show()
        yield piece
      }
    },
    close() {
      if (shown >= 0) write(CLEAR)
    },
  }
}
