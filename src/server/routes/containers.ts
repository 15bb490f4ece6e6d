import type { Gateway } from '../../app/gateway.ts'
import { ContainerFileQuery } from '../../network/containers/schema.ts'
import {
  getContainerFile,
  listContainerFiles,
  promoteContainerFile,
  readContainerFile,
} from '../../network/containers.ts'
import type { Actor } from '../../resources/actor.ts'
import { chooseShape } from '../../resources/files/view.ts'
import { requireKeyInEitherHeader } from '../access.ts'
import { readQuery } from '../body.ts'
import type { FindRequestPeer } from '../calls.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { Routes } from '../routes.ts'
import { buildDownload, chooseRange, refuseRegion } from './files.ts'

/** What a route gets of a request. */
interface ContainerContext {
  actor: Actor
  request: Request
  params: { container_id: string; file_id: string }
}

/** Creates the routes of containers’ files (specification E11, wire reference F.4). */
export function createContainerRoutes(gateway: Gateway, findPeer: FindRequestPeer): Routes {
  const serve =
    (answer: (context: ContainerContext) => unknown) =>
    ({ actor, request, params }: { actor: Actor; request: Request; params: object }) => {
      refuseRegion(gateway, request, findPeer, 'Containers')
      const counted = gateway.traffic.counters.countFileRequest(actor)
      const context = { actor, request, params: params as ContainerContext['params'] }
      return counted ? counted.then(() => answer(context)) : answer(context)
    }
  return new Routes(requireKeyInEitherHeader(gateway))
    .get(
      '/containers/:container_id/files',
      serve(({ actor, request, params }) =>
        listContainerFiles(
          gateway,
          actor,
          params.container_id,
          readQuery(request, ContainerFileQuery),
        ),
      ),
      describe({
        id: 'listContainerFiles',
        summary: 'List the files of a container',
        params: { container_id: CONTAINER },
        query: ContainerFileQuery,
        statuses: STATUSES,
      }),
    )
    .get(
      '/containers/:container_id/files/:file_id',
      serve(({ actor, params }) =>
        getContainerFile(gateway, actor, params.container_id, params.file_id),
      ),
      describe({ id: 'getContainerFile', summary: 'Get the record of a container’s file', ...ONE }),
    )
    .get(
      '/containers/:container_id/files/:file_id/content',
      serve(({ actor, request, params }) => download(gateway, actor, request, params)),
      describe({
        id: 'downloadContainerFileContent',
        summary: 'Download a container’s file',
        produces: ['application/octet-stream'],
        ...ONE,
      }),
    )
    .post(
      '/containers/:container_id/files/:file_id/promote',
      serve(({ actor, request, params }) =>
        promoteContainerFile(
          gateway,
          actor,
          params.container_id,
          params.file_id,
          chooseShape(request.headers),
        ),
      ),
      describe({
        id: 'promoteContainerFile',
        summary: 'Copy a container’s file into the workspace’s files',
        ...ONE,
        statuses: [...STATUSES, 409, 413, 503],
      }),
    )
}

const CONTAINER = 'The container’s id'
const STATUSES = [200, 400, 401, 403, 404, 429, 500]
const ONE = {
  params: { container_id: CONTAINER, file_id: 'The file’s id' },
  statuses: STATUSES,
}

const describe = (details: Omit<Operation, 'tag' | 'eitherHeader'>) =>
  describeOperation({ tag: 'Containers', eitherHeader: true, ...details })

async function download(
  gateway: Gateway,
  actor: Actor,
  request: Request,
  { container_id, file_id }: ContainerContext['params'],
) {
  const chosen = chooseRange(request)
  const { file, ...bytes } = await readContainerFile(gateway, actor, container_id, file_id, chosen)
  return buildDownload({ ...bytes, filename: file.path, size: file.size_bytes, request })
}
