import { Type } from '@sinclair/typebox'
import type { Gateway } from '../../app/gateway.ts'
import type { ByteRange } from '../../base/byte-source.ts'
import { denied, invalid } from '../../base/errors.ts'
import { showName } from '../../base/printable.ts'
import {
  deleteProviderFile,
  getProviderFile,
  isAtProvider,
  listProviderFiles,
  ProviderUpload,
  readProviderFile,
} from '../../network/provider-files.ts'
import type { Actor } from '../../resources/actor.ts'
import { LARGEST_FILE } from '../../resources/files/quota.ts'
import {
  FileListQuery,
  FileScope,
  NewFile,
  ProviderFileQuery,
} from '../../resources/files/schema.ts'
import type { StoredFile } from '../../resources/files/store.ts'
import { chooseShape, showFile } from '../../resources/files/view.ts'
import {
  deleteFile,
  getFile,
  listFiles,
  readFile,
  refuseNarrowing,
  Upload,
} from '../../resources/files.ts'
import { requireKeyInEitherHeaderOrSession } from '../access.ts'
import {
  LARGEST_OVERHEAD,
  type MultipartEvent,
  MultipartReader,
  type PartHead,
  readBoundary,
} from '../body/multipart.ts'
import { readPieces } from '../body/pieces.ts'
import { readQuery } from '../body.ts'
import { createByteStream } from '../byte-stream.ts'
import type { FindRequestPeer } from '../calls.ts'
import { findConnection } from '../connections.ts'
import { readSearchParams, resolveRegion } from '../headers.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { Routes } from '../routes.ts'

/** What a route gets of a request. */
interface FileContext {
  actor: Actor
  request: Request
  params: { file_id: string }
}

/** What says where files are that are listed, among what narrows the list. */
const ListScope = Type.Object(FileScope.properties)

/** Creates the routes of files (specification E10, wire reference F.1). */
export function createFileRoutes(gateway: Gateway, findPeer: FindRequestPeer): Routes {
  const serve =
    (answer: (context: FileContext) => unknown) =>
    ({ actor, request, params }: { actor: Actor; request: Request; params: object }) => {
      refuseRegion(gateway, request, findPeer)
      const counted = gateway.traffic.counters.countFileRequest(actor)
      const context = { actor, request, params: params as FileContext['params'] }
      return counted ? counted.then(() => answer(context)) : answer(context)
    }
  const readScope = (request: Request) => readQuery(request, FileScope)
  return new Routes(requireKeyInEitherHeaderOrSession(gateway))
    .get(
      '/files',
      serve(({ actor, request }) => {
        const shape = chooseShape(request.headers)
        const scope = readQuery(request, ListScope)
        refuseNarrowing(readSearchParams(request).keys(), isAtProvider(scope))
        return isAtProvider(scope)
          ? listProviderFiles(
              ...([gateway, actor] as const),
              { ...readQuery(request, ProviderFileQuery), ...scope },
              shape,
            )
          : listFiles(gateway, actor, readQuery(request, FileListQuery), shape)
      }),
      describe({ id: 'listFiles', summary: 'List files', query: FileListQuery, statuses: LIST }),
    )
    .post(
      '/files',
      serve(async ({ actor, request }) => {
        const file = await receiveFile(gateway, actor, request, readScope(request))
        return showFile(file, chooseShape(request.headers))
      }),
      describe({
        id: 'uploadFile',
        summary: 'Upload a file',
        query: FileScope,
        body: NewFile,
        accepts: 'multipart/form-data',
        statuses: [...LIST, 408, 413, 415, 503],
      }),
    )
    .get(
      '/files/:file_id',
      serve(({ actor, request, params: { file_id } }) => {
        const [scope, shape] = [readScope(request), chooseShape(request.headers)]
        return isAtProvider(scope)
          ? getProviderFile(gateway, actor, file_id, scope, shape)
          : getFile(gateway, actor, file_id, scope, shape)
      }),
      describe({ id: 'getFileMetadata', summary: 'Get a file’s record', ...ONE }),
    )
    .delete(
      '/files/:file_id',
      serve(({ actor, request, params: { file_id } }) => {
        const [scope, shape] = [readScope(request), chooseShape(request.headers)]
        return isAtProvider(scope)
          ? deleteProviderFile(gateway, actor, file_id, scope, shape)
          : deleteFile(gateway, actor, file_id, scope, shape)
      }),
      describe({ id: 'deleteFile', summary: 'Delete a file', ...ONE }),
    )
    .get(
      '/files/:file_id/content',
      serve(({ actor, request, params }) =>
        createDownload(gateway, actor, params.file_id, request),
      ),
      describe({
        id: 'downloadFileContent',
        summary: 'Download a file',
        produces: ['application/octet-stream'],
        ...ONE,
      }),
    )
}

const LIST = [200, 400, 401, 403, 429, 500, 502]
const ONE = {
  params: { file_id: 'The file’s id' },
  query: FileScope,
  statuses: [200, 400, 401, 403, 404, 429, 500, 502, 503],
}

const describe = (details: Omit<Operation, 'tag' | 'eitherHeader'>) =>
  describeOperation({ tag: 'Files', eitherHeader: true, ...details })

/** Throws 403 at the host of a region: what is stored is stored here, wherever that is (F.1). */
export function refuseRegion(
  gateway: Gateway,
  request: Request,
  findPeer: FindRequestPeer,
  noun = 'Files',
): void {
  const host = request.headers.get('host')
  if (resolveRegion(gateway.config, host, () => findPeer(request)) !== 'global')
    throw denied(`${noun} are not available at the hosts of a region`)
}

async function createDownload(gateway: Gateway, actor: Actor, id: string, request: Request) {
  const scope = readQuery(request, FileScope)
  if (isAtProvider(scope))
    return buildDownload({
      ...(await readProviderFile(gateway, actor, id, scope)),
      range: undefined,
      request,
    })
  const { file, ...bytes } = await readFile(gateway, actor, id, scope, chooseRange(request))
  return buildDownload({ ...bytes, filename: file.filename, size: file.size_bytes, request })
}

/** Returns what chooses the bytes that a request asks for. */
export const chooseRange = (request: Request) => (size: number) =>
  readRange(request.headers.get('range'), size)

/** A file that is downloaded, or bytes of it. */
interface Download {
  filename: string
  /** Undefined where only its end will tell. */
  size: number | undefined
  range: ByteRange | undefined
  bytes: ReadableStream<Uint8Array>
  /** Whose connection takes it. */
  request: Request
}

/** Builds the answer that has a file’s bytes: something to save, which no browser runs. */
export const buildDownload = ({ filename, size, range, bytes, request }: Download): Response =>
  new Response(
    request.method === 'HEAD' ? bytes : createByteStream(bytes.values(), findConnection(request)),
    {
      status: range ? 206 : 200,
      headers: {
        'content-type': 'application/octet-stream',
        ...(size === undefined ? {} : { 'content-length': String(range?.length ?? size) }),
        ...(range
          ? { 'content-range': `bytes ${range.start}-${range.start + range.length - 1}/${size}` }
          : {}),
        'content-disposition': renderDisposition(filename),
        'content-security-policy': "default-src 'none'; sandbox",
        'x-content-type-options': 'nosniff',
      },
    },
  )

/** Renders how a browser saves a file, in any characters (RFC 6266, 5). */
function renderDisposition(filename: string): string {
  const name = showName(filename.slice(filename.lastIndexOf('/') + 1)).toWellFormed()
  const plain = name.replace(/[^ !#-[\]-~]/g, '_')
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    mark => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}

/**
 * Returns the bytes that a `Range` header asks for (RFC 9110, 14.2); undefined for all of them:
 * without a header, and for several ranges, other units, and what the file does not have.
 */
export function readRange(header: string | null, size: number): ByteRange | undefined {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? []
  if (first === '' && last === '') return undefined
  const start = first === '' ? Math.max(size - Number(last), 0) : Number(first)
  const end = first === '' || last === '' ? size : Math.min(Number(last) + 1, size)
  return start < end ? { start, length: end - start } : undefined
}

/**
 * Receives the file of a form, straight to the storage, or to the provider that `scope` names. Throws 400 for a form without exactly one
 * file or with other fields than `purpose`, 503 where the process runs out of descriptors, and what
 * `readPieces` and `Upload` throw. If anything fails, nothing is left.
 */
async function receiveFile(
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
