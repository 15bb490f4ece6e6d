import type { KeyHeader } from './operation.ts'
import { isModelId, moveTo, readPath, takeKey } from './request-target.ts'

/**
 * The doors of clients that cannot change their wire, beside the base URL: a path of theirs names a
 * model, which may hold slashes, and their key is in a header of its own. What comes through a door
 * is written as the app knows it: the model as one segment of the path, the key as a bearer token.
 */
interface Door {
  /** What its paths begin with. */
  start: string
  /** The header that has the key, unless `authorization` has it. */
  keyHeader: KeyHeader
  /** Writes what follows the start as the app has it; undefined for what is no path of the door. */
  find(rest: string): string | undefined
}

const DOORS: Door[] = [
  { start: '/openai/deployments/', keyHeader: 'api-key', find: findDeployment },
]

/** What Azure’s clients ask of a deployment. */
const DEPLOYMENT =
  /^(.+?)(\/(?:chat\/completions|completions|embeddings|images\/(?:generations|edits)|audio\/(?:speech|transcriptions)))$/

function findDeployment(rest: string): string | undefined {
  const [, deployment = '', action = ''] = DEPLOYMENT.exec(rest) ?? []
  const model = writeModel(deployment)
  return model && `/openai/deployments/${model}${action}`
}

/** Writes a model’s id as one segment. Undefined for what is none, or would be another path. */
function writeModel(written: string): string | undefined {
  try {
    const id = decodeURIComponent(written)
    return isModelId(id) ? encodeURIComponent(id) : undefined
  } catch {
    return undefined
  }
}

/** Whether a path of the app is reached through a door. */
export const isBehindDoor = (path: string): boolean =>
  DOORS.some(({ start }) => path.startsWith(start))

type Handler = (request: Request, server: Bun.Server<undefined>) => Response | Promise<Response>

/** Builds the table of the doors’ paths: `refuse` gets those that are none. */
export const buildDoorTable = (answer: Handler, refuse: Handler): Record<string, Handler> =>
  Object.fromEntries(
    DOORS.map(({ start, keyHeader, find }) => [
      `${start}*`,
      (request: Request, server: Bun.Server<undefined>) => {
        const path = readPath(request)
        const moved = path.startsWith(start) ? find(path.slice(start.length)) : undefined
        if (moved === undefined) return refuse(request, server)
        takeKey(request, keyHeader)
        return answer(moveTo(request, path, moved), server)
      },
    ]),
  )
