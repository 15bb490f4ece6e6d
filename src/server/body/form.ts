import type { FormBody, FormFile } from '../../core/dialects/dialect.ts'
import { invalid, tooLarge } from '../../core/errors.ts'
import type { BlobDraft } from '../../core/files/blobs.ts'
import { LARGEST_FILE } from '../../core/files/quota.ts'
import { explainFullDisk } from '../../core/files.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Actor } from '../../core/identity/actor.ts'
import { requireValid } from '../../core/kernel/body.ts'
import type { Json } from '../../core/kernel/json.ts'
import { findConnection } from '../connections.ts'
import {
  LARGEST_OVERHEAD,
  type MultipartEvent,
  MultipartReader,
  type PartHead,
  readBoundary,
} from './multipart.ts'
import { readPieces } from './pieces.ts'

/** A body that came as a form. Its file is deleted by `discard`. */
export interface ReceivedForm {
  body: Json
  /** Null where there is none, and need not be. */
  file: FormFile | null
  discard(): Promise<void>
}

/** Tells whether a request has a form. */
export const hasForm = (request: Request): boolean =>
  /^\s*multipart\//i.test(request.headers.get('content-type') ?? '')

/**
 * Receives a form: its file goes straight to the storage, unrecorded, and its fields are checked.
 * Throws 400 for a form without exactly one file, unless it may have none, and for fields that do
 * not fit, 413 for more than 104,857,600 bytes, or than a file that is handed over whole may have, 503 where the storage is full or the process runs out of descriptors, and what
 * `readPieces` throws. If anything fails, nothing is left.
 */
export async function receiveForm(
  gateway: Gateway,
  actor: Actor,
  request: Request,
  { body, file, whole }: FormBody,
): Promise<ReceivedForm> {
  const largest = whole ?? LARGEST_FILE
  const reader = new MultipartReader(readBoundary(request.headers.get('content-type')))
  const name = gateway.ids.uuid().replaceAll('-', '')
  const { workspace_id } = actor
  const create = () => explainFullDisk(() => gateway.blobs.create({ workspace_id, name }))
  const spool = new Spool(create, file, largest)
  const form = new Form(file, spool)
  try {
    for await (const piece of readPieces(request, largest + LARGEST_OVERHEAD))
      for (const event of reader.push(piece)) await form.take(event)
    reader.finish()
    findConnection(request)?.finishBody()
    const fields = requireValid(body, form.readFields(body)) as Json
    const received = await form.openFile(whole)
    return { body: fields, file: received, discard: () => spool.discard() }
  } catch (thrown) {
    await spool.discard()
    throw thrown
  }
}

/** So many bytes of a file are looked at. */
const HEAD_SIZE = 64 * 1024

/** A file that is there for one call only. */
class Spool {
  readonly #create: () => Promise<BlobDraft>
  readonly #name: string
  readonly #largest: number
  #draft: BlobDraft | undefined

  constructor(create: () => Promise<BlobDraft>, name: string, largest: number) {
    this.#create = create
    this.#name = name
    this.#largest = largest
  }

  get isOpen(): boolean {
    return this.#draft !== undefined
  }

  async open(): Promise<void> {
    this.#draft = await this.#create()
  }

  async write(bytes: Uint8Array): Promise<void> {
    if ((this.#draft?.size ?? 0) + bytes.length > this.#largest)
      throw tooLarge(`${this.#name}: expected at most ${this.#largest} bytes`)
    await explainFullDisk(async () => this.#draft?.write(bytes))
  }

  async finish(headSize: number): Promise<FormFile> {
    const draft = this.#draft
    if (!draft) throw new Error('No file has come')
    const read = (position: number, length: number) => draft.readAt(position, length)
    const head = draft.size === 0 ? new Uint8Array(0) : await read(0, headSize)
    return { source: { size: draft.size, read }, head }
  }

  async discard(): Promise<void> {
    await this.#draft?.discard()
  }
}

/** The most bytes of all fields beside the file. */
const LARGEST_FIELDS = 64 * 1024

/** The parts of a form as they arrive. */
class Form {
  readonly #fileName: string
  readonly #spool: Spool
  readonly #fields = new Map<string, string[]>()
  #name = ''
  #pieces: Buffer[] = []
  #size = 0

  constructor(fileName: string, spool: Spool) {
    this.#fileName = fileName
    this.#spool = spool
  }

  async take(event: MultipartEvent): Promise<void> {
    if (event.kind === 'part') await this.#begin(event.head)
    else if (event.kind === 'bytes') await this.#takeBytes(event.bytes)
    else if (this.#name !== this.#fileName) this.#endField()
  }

  /** Throws 400 if no file has come, unless it may be left out and is read whole. */
  async openFile(whole: number | undefined): Promise<FormFile | null> {
    const field = this.#fileName
    if (this.#spool.isOpen) return this.#spool.finish(whole ?? HEAD_SIZE)
    if (whole !== undefined) return null
    throw invalid(`${field}: expected a part of this name`, field)
  }

  /** Returns the fields as JSON would have them. Throws 400 for one that comes twice. */
  readFields({ properties }: FormBody['body']): Json {
    const fields: Json = {}
    for (const [name, values] of this.#fields) {
      const plain = name.replace(/\[\]$/, '')
      const accepts = (type: string) => mayBe(properties?.[plain], type)
      if (accepts('array')) fields[plain] = [...((fields[plain] as string[]) ?? []), ...values]
      else if (values.length > 1) throw invalid(`${name}: expected one part of this name`, name)
      else {
        const isNumber = accepts('number') || accepts('integer')
        fields[name] = isNumber ? readNumber(values[0] ?? '') : values[0]
      }
    }
    return fields
  }

  async #begin({ name, filename }: PartHead): Promise<void> {
    this.#name = name
    this.#pieces = []
    if (name !== this.#fileName) return
    if (this.#spool.isOpen) throw invalid(`${name}: expected one part of this name`, name)
    if (filename === undefined) throw invalid(`${name}: expected a part with a filename`, name)
    await this.#spool.open()
  }

  async #takeBytes(bytes: Buffer): Promise<void> {
    if (this.#name === this.#fileName) return this.#spool.write(bytes)
    this.#size += bytes.length
    if (this.#size > LARGEST_FIELDS)
      throw invalid(`body: expected at most ${LARGEST_FIELDS} bytes of fields`)
    // The memory of the read is given back.
    this.#pieces.push(Buffer.from(bytes))
  }

  #endField(): void {
    const text = decode(Buffer.concat(this.#pieces))
    this.#fields.set(this.#name, [...(this.#fields.get(this.#name) ?? []), text])
  }
}

/** Tells whether a schema, or one of several, is of this type. */
function mayBe(schema: { type?: string; anyOf?: unknown[] } | undefined, type: string): boolean {
  if (schema?.type === type) return true
  return schema?.anyOf?.some(one => mayBe(one as { type?: string }, type)) ?? false
}

const NUMBER = /^-?\d{1,15}(\.\d{1,15})?$/

const readNumber = (text: string): unknown => (NUMBER.test(text) ? Number(text) : text)

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid('body: expected fields in UTF-8')
  }
}
