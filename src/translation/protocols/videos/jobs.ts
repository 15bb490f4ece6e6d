import { getOwn, isObject, type Json, readString } from '../../../base/json.ts'
import type { VideoCall } from '../../../language/video.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { findMessage, translateFailure, unreadableAnswer } from '../failure.ts'
import type { JobProtocol, JobState, Protocol, UpstreamJob, UpstreamRequest } from '../protocol.ts'
import {
  findFrame,
  listPictures,
  listUrls,
  pickSeconds,
  readVideoOptions,
  readWord,
  requireObject,
  toCompleted,
  toEnded,
  toJobParts,
  videoDefaults,
} from '../videos.ts'

/** What a call may ask for. `ratio` is a ratio or exact pixels, as the row names those. */
type Field =
  | 'model'
  | 'prompt'
  | 'first_frame'
  | 'last_frame'
  | 'pictures'
  | 'seconds'
  | 'resolution'
  | 'aspect_ratio'
  | 'ratio'
  | 'generate_audio'
  | 'seed'

/** Where a field goes, `a.b` in an object, and how it is written there. */
type Place = string | [name: string, render: (value: unknown) => unknown]

/**
 * How a provider's jobs are begun and asked about. Paths may have `{id}`, `{model}` and `{app}`, the
 * first two segments of the model. Names of fields in answers may lead into objects and lists.
 */
export interface JobRow {
  /** The hosts that serve jobs in the place of those of the base URL. */
  hosts?: Record<string, string>
  headers?: Record<string, string>
  begin: string
  /** Where one begins that has a first frame, if that is elsewhere. */
  beginWithPicture?: string
  /** The field of the answer that has the job's id. */
  id: string
  poll: string
  /** Where the videos are, if the state does not say. */
  result?: string
  /** Whether a DELETE where it is asked about ends it. */
  canCancel?: boolean
  fields: Partial<Record<Field, Place>>
  /** The resolution to ask for where a call names none. */
  resolution?: string
  /** How ratios are named. */
  ratios?: Record<string, string>
  /** The field of the answer that says how a job is doing. */
  state: string
  /** Its words for that which the table of words does not have: those that say that it goes on. */
  states?: Record<string, JobState['status']>
  /** The field that says why one has failed. */
  error?: string
  /** Returns why a job that is completed has failed; null if it has not. */
  failure?: (answer: Json) => string | null
  /** The fields that have the URLs of videos. */
  outputs: string[]
}

/** Creates the protocol of a provider whose videos are jobs of this shape. */
export const createJobProtocol = (row: JobRow): Protocol<'video'> => ({
  ...videoDefaults,
  urlMedia: ['image', 'audio', 'video'],
  buildRequest: (call, endpoint) => buildRequest(row, call, endpoint),
  parseAnswer: body => toJobParts(requireObject(body)[row.id]),
  readFailure: (status, body) =>
    translateFailure(status, { code: null, message: findMessage(body) }),
  job: createJob(row),
})

function createJob(row: JobRow): JobProtocol {
  const { poll, result, canCancel } = row
  const ask = (path: string, job: UpstreamJob, method: 'GET' | 'DELETE') => ({
    ...describeWay(row),
    ...{ method, path: fillPath(path, job), body: {} },
  })
  return {
    buildPoll: job => ask(poll, job, 'GET'),
    readState: body => readState(row, body),
    ...(result === undefined
      ? {}
      : {
          buildResult: (job: UpstreamJob) => ask(result, job, 'GET'),
          readResult: (status: number, body: unknown) => readResult(row, status, body),
        }),
    ...(canCancel ? { buildCancel: (job: UpstreamJob) => ask(poll, job, 'DELETE') } : {}),
  }
}

const describeWay = ({ hosts, headers }: JobRow) => ({
  ...(hosts ? { hosts } : {}),
  ...(headers ? { headers } : {}),
})

function fillPath(path: string, { upstream_id, upstreamModel }: UpstreamJob): string {
  const segments = upstreamModel.split('/').map(encodeURIComponent)
  return path
    .replace('{id}', () => encodeURIComponent(upstream_id))
    .replace('{model}', () => segments.join('/'))
    .replace('{app}', () => segments.slice(0, 2).join('/'))
}

function buildRequest(row: JobRow, call: VideoCall, endpoint: Endpoint): UpstreamRequest {
  const hasPicture = findFrame(call, 'first_frame') !== undefined
  const path = (hasPicture && row.beginWithPicture) || row.begin
  const body: Json = { ...readVideoOptions(call, endpoint) }
  const values = readFields(row, call, endpoint)
  for (const [field, place] of Object.entries(row.fields)) {
    const value = values[field as Field]
    if (value === undefined) continue
    const [name, render = keep] = typeof place === 'string' ? [place] : place
    putField(body, name.split('.'), render(value))
  }
  const { upstreamModel } = endpoint
  return { ...describeWay(row), path: fillPath(path, { upstream_id: '', upstreamModel }), body }
}

const keep = (value: unknown): unknown => value

function readFields(row: JobRow, call: VideoCall, endpoint: Endpoint): Record<Field, unknown> {
  const { size, resolution = row.resolution, aspect_ratio, generate_audio, seed } = call.params
  const pictures = listPictures(call)
  const ratio = size
    ? `${size.width}:${size.height}`
    : getOwn(row.ratios ?? {}, aspect_ratio ?? '16:9')
  return {
    model: endpoint.upstreamModel,
    prompt: call.prompt || undefined,
    first_frame: findFrame(call, 'first_frame'),
    last_frame: findFrame(call, 'last_frame'),
    pictures: pictures.length === 0 ? undefined : pictures,
    seconds: pickSeconds(call, endpoint) ?? undefined,
    resolution: resolution?.toLowerCase(),
    ...{ aspect_ratio, ratio, generate_audio, seed },
  }
}

function putField(body: Json, [name = '', ...rest]: string[], value: unknown): void {
  if (rest.length === 0) {
    body[name] = value
    return
  }
  const inner: Json = isObject(body[name]) ? { ...body[name] } : {}
  putField(inner, rest, value)
  body[name] = inner
}

/** Lists what an answer has in this field: lists on the way are looked through. */
function findValues(value: unknown, names: string[]): unknown[] {
  if (Array.isArray(value)) return value.flatMap(one => findValues(one, names))
  const [name, ...rest] = names
  if (name === undefined) return [value]
  return isObject(value) ? findValues(value[name], rest) : []
}

const readOutputs = ({ outputs }: JobRow, answer: Json): JobState =>
  toCompleted(listUrls(outputs.flatMap(name => findValues(answer, name.split('.')))))

function readState(row: JobRow, body: unknown): JobState {
  const answer = requireObject(body)
  const failure = row.failure?.(answer) ?? null
  const word = readString(answer[row.state])
  return readWord(getOwn(row.states ?? {}, word ?? '') ?? word, {
    error: failure ?? (row.error && answer[row.error]),
    findResult() {
      if (failure !== null) return toEnded('failed', failure)
      if (row.result === undefined) return readOutputs(row, answer)
      return { status: 'completed', error: null, outputs: [], seconds: null }
    },
  })
}

/** A result that there is not: it is invalid, or there is none (any more). */
const GONE = new Set([400, 404, 410, 422])

function readResult(row: JobRow, status: number, body: unknown): JobState {
  if (GONE.has(status)) return toEnded('failed', findMessage(body))
  if (status !== 200) throw unreadableAnswer()
  return readOutputs(row, requireObject(body))
}
