import { invalid } from '../../../core/errors.ts'
import { LARGEST_FILE } from '../../../core/files/quota.ts'
import type { FileScope } from '../../../core/files/schema.ts'
import type { StoredFile } from '../../../core/files/store.ts'
import { Upload } from '../../../core/files.ts'
import type { Gateway } from '../../../core/gateway.ts'
import type { Actor } from '../../../core/identity/actor.ts'
import { isAtProvider, ProviderUpload } from '../../../core/upstream/provider-files.ts'
import {
  LARGEST_OVERHEAD,
  type MultipartEvent,
  MultipartReader,
  type PartHead,
  readBoundary,
} from '../../body/multipart.ts'
import { readPieces } from '../../body/pieces.ts'
import { findConnection } from '../../connections.ts'

/**
 * Receives the file of a form, straight to the storage, or to the provider that `scope` names. Throws 400 for a form without exactly one
 * file or with other fields than `purpose`, 503 where the process runs out of descriptors, and what
 * `readPieces` and `Upload` throw. If anything fails, nothing is left.
 */
export async function receiveFile(
  gateway: Gateway,
  actor: Actor,
  request: Request,
  scope: FileScope,
): Promise<ReceivedFile> {
  const form = new FileForm(filename =>
    isAtProvider(scope)
      ? ProviderUpload.open(gateway, actor, { ...scope, filename })
      : Upload.open(gateway, actor, { ...scope, filename }),
  )
  const reader = new MultipartReader(readBoundary(request.headers.get('content-type')))
  const receive = () => readForm(request, reader, form)
  const connection = findConnection(request)
  connection?.requireDescriptor()
  const file = await (connection ? connection.runUnlimited(receive) : receive())
  connection?.finishBody()
  return file
}

async function readForm(
  request: Request,
  reader: MultipartReader,
  form: FileForm,
): Promise<ReceivedFile> {
  try {
    for await (const piece of readPieces(request, LARGEST_FILE + LARGEST_OVERHEAD))
      for (const event of reader.push(piece)) await form.take(event)
    reader.finish()
    return await form.finish()
  } finally {
    await form.discard()
  }
}

/** What has arrived: a file of our own, or one that a provider keeps. */
type ReceivedFile = Omit<StoredFile, 'workspace_id' | 'sha256' | 'expires_at'>
type AnyUpload = Upload | ProviderUpload

const LONGEST_PURPOSE = 64

/** The form of an upload: one file, and at most what it is for. */
class FileForm {
  readonly #open: (filename: string) => Promise<AnyUpload>
  #upload: AnyUpload | undefined
  #purpose: string | null = null
  #isFile = false

  constructor(open: (filename: string) => Promise<AnyUpload>) {
    this.#open = open
  }

  async take(event: MultipartEvent): Promise<void> {
    if (event.kind === 'part') await this.#begin(event.head)
    else if (event.kind === 'bytes') await this.#takeBytes(event.bytes)
  }

  /** Throws 400 if no file has come. */
  finish(): Promise<ReceivedFile> {
    if (!this.#upload) throw invalid('file: expected a part of this name', 'file')
    // A field without a value is none.
    return this.#upload.finish(this.#purpose || null)
  }

  async discard(): Promise<void> {
    await this.#upload?.discard()
  }

  async #begin({ name, filename }: PartHead): Promise<void> {
    this.#isFile = name === 'file'
    if (this.#isFile) {
      if (this.#upload) throw invalid('file: expected one part of this name', 'file')
      if (filename === undefined) throw invalid('file: expected a part with a filename', 'file')
      this.#upload = await this.#open(filename)
    } else if (name !== 'purpose' || this.#purpose !== null) throw refusePart(name)
    else this.#purpose = ''
  }

  async #takeBytes(bytes: Buffer): Promise<void> {
    if (this.#isFile) return this.#upload?.write(bytes)
    this.#purpose += bytes.toString('latin1')
    if ((this.#purpose?.length ?? 0) > LONGEST_PURPOSE)
      throw invalid(`purpose: expected at most ${LONGEST_PURPOSE} bytes`, 'purpose')
  }
}

const refusePart = (name: string) =>
  /^[\w[\]-]{1,64}$/.test(name)
    ? invalid(`${name}: expected no other parts than file and one purpose`, name)
    : invalid('body: expected no other parts than file and one purpose')
