import { constants, crc32, deflateRawSync } from 'node:zlib'

/*
 * Archives as bytes that depend on their contents and one time alone: no owner, no clock, no order of
 * a directory. What is large is compressed once for all archives that hold the same bytes.
 */

/** A file, a directory (its path ends with a slash) or a symbolic link in an archive. */
export interface Entry {
  path: string
  content?: Uint8Array
  /** What a symbolic link points to. */
  link?: string
  mode?: number
  /** The number of its user and group; root by default. */
  owner?: number
}

/** Joins texts and bytes. */
export const concat = (...parts: (string | Uint8Array)[]): Buffer =>
  Buffer.concat(parts.map(part => (typeof part === 'string' ? Buffer.from(part) : part)))

const pad = (length: number, unit: number) => Buffer.alloc((unit - (length % unit)) % unit)

function renderTarHeader(entry: Entry, size: number, seconds: number): Buffer {
  const { path, link = '', owner = 0, mode = getMode(entry) } = entry
  if (Buffer.byteLength(path) > 100) throw new Error(`A path of more than 100 bytes: ${path}`)
  const header = Buffer.alloc(512)
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, '0')}\0`
  const type = link ? '2' : path.endsWith('/') ? '5' : '0'
  const fields: Record<number, string> = {
    0: path,
    100: octal(mode, 7),
    108: octal(owner, 7),
    116: octal(owner, 7),
    124: octal(size, 11),
    136: octal(seconds, 11),
    148: ' '.repeat(8),
    156: type,
    157: link,
    257: 'ustar\0' + '00',
  }
  for (const [offset, text] of Object.entries(fields)) header.write(text, Number(offset))
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return header
}

const getMode = ({ path, link }: Entry) => (link ? 0o777 : path.endsWith('/') ? 0o755 : 0o644)

/** Adds the directories that entries are in. */
export function addDirectories(entries: Entry[]): Entry[] {
  const known = new Set(entries.map(({ path }) => path))
  return entries.flatMap(entry => {
    const parents = [...entry.path.matchAll(/\/(?=.)/g)].map(({ index }) =>
      entry.path.slice(0, index + 1),
    )
    const added = parents.filter(path => !known.has(path)).map(path => ({ path }))
    for (const { path } of added) known.add(path)
    return [...added, entry]
  })
}

/** Reads the files and links of a tar archive with paths of at most 100 bytes. */
export function readTar(archive: Uint8Array): Entry[] {
  const [entries, bytes] = [[] as Entry[], Buffer.from(archive)]
  for (let at = 0; at + 512 <= bytes.length && bytes[at] !== 0; ) {
    const text = (from: number, length: number) =>
      bytes.toString('utf8', at + from, at + from + length).replace(/\0.*/s, '')
    const size = Number.parseInt(text(124, 12), 8)
    const content = bytes.subarray(at + 512, at + 512 + size)
    const common = { path: text(0, 100), mode: Number.parseInt(text(100, 8), 8) }
    if (text(156, 1) === '2') entries.push({ ...common, link: text(157, 100) })
    else if (/^0?$/.test(text(156, 1))) entries.push({ ...common, content })
    at += 512 + Math.ceil(size / 512) * 512
  }
  return entries
}

/** Makes archives of one time, and compresses what several of them hold once. */
export class Archiver {
  readonly seconds: number
  readonly #level: number
  readonly #blocks = new WeakMap<Uint8Array, Uint8Array>()
  readonly #frames = new WeakMap<Uint8Array, Uint8Array>()

  constructor(seconds: number, level: number) {
    this.seconds = seconds
    this.#level = level
  }

  /** Renders a tar archive, as pieces: each content is one, so that it is known when compressed. */
  tar(entries: Entry[]): Uint8Array[] {
    const pieces = entries.flatMap(entry => {
      const content = entry.content ?? new Uint8Array()
      const header = renderTarHeader(entry, content.length, this.seconds)
      return [header, content, pad(content.length, 512)]
    })
    return [...pieces, Buffer.alloc(1024)]
  }

  /** Renders an archive of Unix's `ar`, which a Debian package is. */
  ar(entries: Required<Pick<Entry, 'path' | 'content'>>[]): Buffer {
    const files = entries.flatMap(({ path, content }) => [
      `${path.padEnd(16)}${String(this.seconds).padEnd(12)}0     0     100644  `,
      `${String(content.length).padEnd(10)}\`\n`,
      content,
      content.length % 2 === 0 ? '' : '\n',
    ])
    return concat('!<arch>\n', ...files)
  }

  /** Renders a gzip file of the pieces, without a name and a time. */
  gzip(pieces: Uint8Array[]): Buffer {
    const trailer = Buffer.alloc(8)
    trailer.writeUInt32LE(pieces.reduce((sum, piece) => crc32(piece, sum), 0))
    trailer.writeUInt32LE(pieces.reduce((sum, { length }) => sum + length, 0) % 2 ** 32, 4)
    const head = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff])
    return concat(head, ...this.#deflate(pieces), trailer)
  }

  /** Renders a zstd file of the pieces, which takes a fourth of the time to read. */
  zstd(pieces: Uint8Array[]): Buffer {
    const compress = (piece: Uint8Array) =>
      Bun.zstdCompressSync(piece, { level: Math.max(1, this.#level) })
    return concat(...pieces.map(piece => remember(this.#frames, piece, () => compress(piece))))
  }

  /** Renders a zip archive of files. */
  zip(entries: Entry[]): Buffer {
    const files: Buffer[] = []
    const directory: Buffer[] = []
    let offset = 0
    for (const { path, content = new Uint8Array(), mode = 0o644 } of entries) {
      const [data, name] = [concat(...this.#deflate([content])), Buffer.from(path)]
      // Version, flags (names in UTF-8), deflate, time, date; then sum, sizes and lengths.
      const common = Buffer.alloc(26)
      for (const [index, value] of [20, 0x800, 8, ...toDosTime(this.seconds)].entries())
        common.writeUInt16LE(value, index * 2)
      for (const [index, value] of [crc32(content), data.length, content.length].entries())
        common.writeUInt32LE(value, 10 + index * 4)
      common.writeUInt16LE(name.length, 22)
      const rest = Buffer.alloc(14)
      rest.writeUInt32LE((0o100000 | mode) * 2 ** 16, 6)
      rest.writeUInt32LE(offset, 10)
      files.push(concat('PK\x03\x04', common, name, data))
      // Made by Unix, so that the mode is one of its own.
      directory.push(concat('PK\x01\x02', Buffer.from([20, 3]), common, rest, name))
      offset += 30 + name.length + data.length
    }
    const end = Buffer.alloc(18)
    for (const at of [4, 6]) end.writeUInt16LE(entries.length, at)
    end.writeUInt32LE(concat(...directory).length, 8)
    end.writeUInt32LE(offset, 12)
    return concat(...files, ...directory, 'PK\x05\x06', end)
  }

  /** Compresses each piece by itself, up to the border of a byte; an empty block is the end. */
  #deflate(pieces: Uint8Array[]): Uint8Array[] {
    return [...pieces.map(piece => this.#deflatePiece(piece)), Buffer.from([3, 0])]
  }

  #deflatePiece(piece: Uint8Array): Uint8Array {
    const finishFlush = constants.Z_SYNC_FLUSH
    return remember(this.#blocks, piece, () =>
      deflateRawSync(piece, { level: this.#level, finishFlush }),
    )
  }
}

/** Returns what is known of a piece, or makes it. */
function remember(
  known: WeakMap<Uint8Array, Uint8Array>,
  piece: Uint8Array,
  make: () => Uint8Array,
): Uint8Array {
  const made = known.get(piece) ?? make()
  known.set(piece, made)
  return made
}

/** Converts a time to the two numbers that zip has, which begin in 1980 and are in UTC here. */
function toDosTime(seconds: number): [time: number, date: number] {
  const at = new Date(Math.max(seconds, Date.UTC(1980, 0) / 1000) * 1000)
  const time = (at.getUTCHours() << 11) | (at.getUTCMinutes() << 5) | (at.getUTCSeconds() >> 1)
  const year = at.getUTCFullYear() - 1980
  return [time, (year << 9) | ((at.getUTCMonth() + 1) << 5) | at.getUTCDate()]
}
