import type { WrittenFile } from '../sandbox.ts'

const BLOCK = 512

/** Writes files as a tar archive (POSIX.1-1988 with GNU’s long names), piece by piece. */
export async function* writeTar(files: AsyncIterable<WrittenFile>): AsyncIterable<Uint8Array> {
  for await (const { path, mode, size, pieces } of files) {
    const name = Buffer.from(path)
    if (name.length > LONGEST_NAME) {
      yield renderHeader(Buffer.from('././@LongLink'), 0, name.length, 'L')
      yield pad(name)
    }
    yield renderHeader(name.subarray(0, LONGEST_NAME), mode & 0o777, size, '0')
    yield* pieces
    yield new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK)
  }
  yield new Uint8Array(2 * BLOCK)
}

const LONGEST_NAME = 100

const pad = (bytes: Buffer): Buffer =>
  Buffer.concat([bytes, Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK)])

function renderHeader(name: Buffer, mode: number, size: number, type: string): Buffer {
  const header = Buffer.alloc(BLOCK)
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0')
  name.copy(header)
  header.write(octal(mode, 7), 100)
  header.write(octal(0, 7), 108)
  header.write(octal(0, 7), 116)
  header.write(octal(size, 11), 124)
  header.write(octal(0, 11), 136)
  header.write('        ', 148)
  header.write(type, 156)
  header.write('ustar  ', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${octal(sum, 6)}\0 `, 148)
  return header
}

/** Converts pieces to a stream that takes one when it is asked for one. */
export function toStream(pieces: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        // What enqueues nothing is not asked again.
        for (let step = await iterator.next(); ; step = await iterator.next()) {
          if (step.done) return controller.close()
          if (step.value.length > 0) return controller.enqueue(step.value)
        }
      },
      cancel: async () => void (await iterator.return?.()),
    },
    { highWaterMark: 0 },
  )
}
