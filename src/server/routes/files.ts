import { type AnyElysia, Elysia } from 'elysia'
import { denied } from '../../core/errors.ts'
import { FileListQuery, FileScope, NewFile, ProviderFileQuery } from '../../core/files/schema.ts'
import { chooseShape, showFile } from '../../core/files/view.ts'
import { deleteFile, getFile, listFiles, readFile, refuseNarrowing } from '../../core/files.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Actor } from '../../core/identity/actor.ts'
import type { ByteRange } from '../../core/kernel/byte-source.ts'
import { showName } from '../../core/kernel/printable.ts'
import { resolveRegion } from '../../core/language/region.ts'
import {
  deleteProviderFile,
  getProviderFile,
  isAtProvider,
  listProviderFiles,
  readProviderFile,
} from '../../core/upstream/provider-files.ts'
import { requireKeyInEitherHeader } from '../access.ts'
import { readQuery } from '../body.ts'
import { createByteStream } from '../byte-stream.ts'
import { findConnection } from '../connections.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { readSearchParams } from '../request-target.ts'
import { readRange } from './files/range.ts'
import { receiveFile } from './files/upload.ts'
import type { FindRequestPeer } from './inference.ts'

/** What a route gets of a request. */
interface FileContext {
  actor: Actor
  request: Request
  params: { file_id: string }
}

/** Creates the routes of files (specification E10, wire reference F.1). */
export function createFileRoutes(gateway: Gateway, findPeer: FindRequestPeer): AnyElysia {
  const serve =
    (answer: (context: FileContext) => unknown) =>
    ({ actor, request, params }: { actor: Actor; request: Request; params: object }) => {
      refuseRegion(gateway, request, findPeer)
      gateway.traffic.counters.countFileRequest(actor)
      return answer({ actor, request, params: params as FileContext['params'] })
    }
  const readScope = (request: Request) => readQuery(request, FileScope)
  return new Elysia()
    .use(requireKeyInEitherHeader(gateway))
    .get(
      '/files',
      serve(({ actor, request }) => {
        const shape = chooseShape(request.headers)
        const scope = readScope(request)
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
