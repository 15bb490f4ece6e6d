import type { Gateway } from '../../app/gateway.ts'
import { requireValid } from '../../base/body.ts'
import { invalid, tooLarge } from '../../base/errors.ts'
import { isObject, type Json } from '../../base/json.ts'
import type { Actor } from '../../resources/actor.ts'
import type { BlobDraft } from '../../resources/files/blobs.ts'
import { LARGEST_FILE } from '../../resources/files/quota.ts'
import { explainFullDisk } from '../../resources/files.ts'
import type { FormBody, FormFile } from '../../translation/dialects/dialect.ts'
import { findConnection } from '../connections.ts'
import {
  LARGEST_OVERHEAD,
  type MultipartEvent,
  MultipartReader,
  type PartHead,
  readBoundary,
} from './multipart.ts'
import { readPieces } from './pieces.ts'

/** A body that came as a form. Its files are deleted by `discard`. */
export interface ReceivedForm {
  body: Json
  /** In their order; none where there need not be any. */
  files: FormFile[]
  discard(): Promise<void>
}

/** Tells whether a request has a form. */
export const hasForm = (request: Request): boolean =>
  /^\s*multipart\//i.test(request.headers.get('content-type') ?? '')

/**
 * Receives a form: its files go straight to the storage, unrecorded, and its fields are checked.
 * Throws 400 for a form with more files than it may have, or without one where it needs one, and for
 * fields that do not fit, 413 for more than 104,857,600 bytes, or than files that are handed over
 * whole may have, 503 where the storage is full or the process runs out of descriptors, and what
 * `readPieces` throws. If anything fails, nothing is left.
 */
export async function receiveForm(
  gateway: Gateway,
  actor: Actor,
  request: Request,
  expected: FormBody,
): Promise<ReceivedForm> {
  const largest = expected.whole ?? LARGEST_FILE
  const reader = new MultipartReader(readBoundary(request.headers.get('content-type')))
  const { workspace_id } = actor
  const create = () => {
    const name = gateway.ids.uuid().replaceAll('-', '')
    return explainFullDisk(() => gateway.blobs.create({ workspace_id, name }))
  }
  const form = new Form(expected, new Spool(create, expected.file, largest))
  try {
    const overhead = LARGEST_OVERHEAD + (expected.fields ?? 0)
    for await (const piece of readPieces(request, largest + overhead))
      for (const event of reader.push(piece)) await form.take(event)
    reader.finish()
    findConnection(request)?.finishBody()
    const fields = requireValid(expected.body, form.readFields()) as Json
    return { body: fields, files: await form.openFiles(), discard: () => form.discard() }
  } catch (thrown) {
    await form.discard()
    throw thrown
  }
}

/** So many bytes of a file are looked at. */
const HEAD_SIZE = 64 * 1024

/** Files that are there for one call only. */
class Spool {
  readonly #create: () => Promise<BlobDraft>
  readonly #name: string
  readonly #largest: number
  readonly #drafts: { name: string; draft: BlobDraft }[] = []
  #size = 0

  constructor(create: () => Promise<BlobDraft>, name: string, largest: number) {
    this.#create = create
    this.#name = name
    this.#largest = largest
  }

  /** Counts the files of a name. */
  count(name: string): number {
    return this.#drafts.filter(one => one.name === name).length
  }

  async open(name: string): Promise<void> {
    this.#drafts.push({ name, draft: await this.#create() })
  }

  /** Writes to the file that was opened last. */
  async write(bytes: Uint8Array): Promise<void> {
    this.#size += bytes.length
    if (this.#size > this.#largest)
      throw tooLarge(`${this.#name}: expected at most ${this.#largest} bytes`)
    await explainFullDisk(async () => this.#drafts.at(-1)?.draft.write(bytes))
  }

  finish(headSize: number): Promise<FormFile[]> {
    return Promise.all(
      this.#drafts.map(async ({ name, draft }) => ({
        name,
        ...(await finishDraft(draft, headSize)),
      })),
    )
  }

  async discard(): Promise<void> {
    await Promise.all(this.#drafts.map(({ draft }) => draft.discard()))
  }
}

async function finishDraft(draft: BlobDraft, headSize: number): Promise<Omit<FormFile, 'name'>> {
  const { size } = draft
  const read = (position: number, length: number) => draft.readAt(position, length)
  const head = size === 0 ? new Uint8Array(0) : await read(0, headSize)
  return { source: { size, read }, head }
}

/** The most bytes of all fields beside the file, where the form does not say. */
const LARGEST_FIELDS = 64 * 1024

/** The parts of a form as they arrive. */
class Form {
  readonly #expected: FormBody
  readonly #spool: Spool
  readonly #fields = new Map<string, string[]>()
  #name = ''
  #pieces: Buffer[] = []
  #size = 0

  constructor(expected: FormBody, spool: Spool) {
    this.#expected = expected
    this.#spool = spool
  }

  async take(event: MultipartEvent): Promise<void> {
    if (event.kind === 'part') await this.#begin(event.head)
    else if (event.kind === 'bytes') await this.#takeBytes(event.bytes)
    else if (!this.#isFile()) this.#endField()
  }

  /** Throws 400 if no file has come, unless they may be left out and are read whole. */
  async openFiles(): Promise<FormFile[]> {
    const { file: field, whole } = this.#expected
    if (this.#spool.count(field) === 0 && whole === undefined)
      throw invalid(`${field}: expected a part of this name`, field)
    return this.#spool.finish(whole ?? HEAD_SIZE)
  }

  discard(): Promise<void> {
    return this.#spool.discard()
  }

  /**
   * Returns the fields as JSON would have them: `a[b]` is a member of an object. A field without a
   * value is none, as clients send what a person has left empty. Throws 400 for one that comes twice.
   */
  readFields(): Json {
    const { properties } = this.#expected.body
    const fields: Json = {}
    for (const [name, sent] of this.#fields) {
      const values = sent.filter(value => value !== '')
      if (values.length === 0) continue
      const plain = name.replace(/\[\]$/, '')
      const accepts = (type: string) => mayBe(properties?.[plain], type)
      if (accepts('array')) fields[plain] = [...((fields[plain] as string[]) ?? []), ...values]
      else if (values.length > 1) throw invalid(`${name}: expected one part of this name`, name)
      else putField(fields, name, values[0] ?? '', properties)
    }
    return fields
  }

  async #begin({ name, filename }: PartHead): Promise<void> {
    this.#name = name
    this.#pieces = []
    if (!this.#isFile() && filename !== undefined)
      throw invalid(`${name}: expected a field, found a file`, name)
    if (!this.#isFile()) return
    const file = this.#readFileName()
    const most = file === this.#expected.file ? (this.#expected.most ?? 1) : 1
    if (this.#spool.count(file) === most)
      throw invalid(
        `${name}: expected ${most === 1 ? 'one part' : `${most} parts`} of this name`,
        name,
      )
    if (filename === undefined) throw invalid(`${name}: expected a part with a filename`, name)
    await this.#spool.open(file)
  }

  #isFile(): boolean {
    const { file, most = 1, others = [] } = this.#expected
    return (
      this.#name === file || (most > 1 && this.#name === `${file}[]`) || others.includes(this.#name)
    )
  }

  #readFileName(): string {
    return this.#name.replace(/\[\]$/, '')
  }

  async #takeBytes(bytes: Buffer): Promise<void> {
    if (this.#isFile()) return this.#spool.write(bytes)
    this.#size += bytes.length
    const { fields: largest = LARGEST_FIELDS } = this.#expected
    if (this.#size > largest) throw invalid(`body: expected at most ${largest} bytes of fields`)
    // The memory of the read is given back.
    this.#pieces.push(Buffer.from(bytes))
  }

  #endField(): void {
    const text = decode(Buffer.concat(this.#pieces))
    this.#fields.set(this.#name, [...(this.#fields.get(this.#name) ?? []), text])
  }
}

interface Schema {
  type?: string
  anyOf?: unknown[]
  properties?: Record<string, Schema>
}

/** Puts a value where its name says. A name that is not known stays one, and is refused. */
function putField(
  fields: Json,
  name: string,
  value: string,
  properties: Record<string, Schema> | undefined,
): void {
  const [, holder = '', member = ''] = /^(\w+)\[(\w+)\]$/.exec(name) ?? []
  const members = properties?.[name] ? undefined : findMembers(properties?.[holder])
  if (!members) {
    fields[name] = readValue(value, type => mayBe(properties?.[name], type))
    return
  }
  const object = isObject(fields[holder]) ? fields[holder] : {}
  object[member] = readValue(value, type => mayBe(members[member], type))
  fields[holder] = object
}

/** Finds the members of a schema, or of one of several. */
function findMembers(schema: Schema | undefined): Record<string, Schema> | undefined {
  if (schema?.properties) return schema.properties
  for (const one of schema?.anyOf ?? []) {
    const members = findMembers(one as Schema)
    if (members) return members
  }
  return undefined
}

/** Tells whether a schema, or one of several, is of this type. */
function mayBe(schema: Schema | undefined, type: string): boolean {
  if (schema?.type === type) return true
  return schema?.anyOf?.some(one => mayBe(one as Schema, type)) ?? false
}

// As JSON has them, and as clients write what they have computed: 0.30000000000000004, 1e-05.
const NUMBER = /^-?\d{1,16}(\.\d{1,30})?(e[+-]?\d{1,3})?$/i

/** Reads a text as the JSON value that a field takes; another text stays one, and is refused. */
function readValue(text: string, accepts: (type: string) => boolean): unknown {
  if ((accepts('number') || accepts('integer')) && NUMBER.test(text)) return Number(text)
  return accepts('boolean') && /^(true|false)$/.test(text) ? text === 'true' : text
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid('body: expected fields in UTF-8')
  }
}
