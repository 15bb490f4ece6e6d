import type { AnyElysia } from 'elysia'
import { notFound } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { createErrorResponse } from './errors.ts'
import { readRequestId } from './headers.ts'

/** A request that Bun has matched with a pattern: its parameters, decoded. */
type MatchedRequest = Request & { params?: Record<string, string> }

type Handler = (request: Request, server: Bun.Server<undefined>) => Response | Promise<Response>

/**
 * Builds Bun's table of the app's paths: `answer` gets the requests whose request line has one of
 * them, and `refuse` those with a parameter that could be taken for several segments.
 *
 * Bun compares its table with the request line as it was sent. `request.url` has been parsed: `..`
 * and backslashes have changed its path, so `/docs/../metrics` would pass a proxy that denies
 * `/metrics`, and be answered.
 */
export function buildTargetTable(
  app: AnyElysia,
  answer: Handler,
  refuse: Handler,
): Record<string, Handler> {
  const answerWhole: Handler = (request, server) =>
    hasWholeSegments(request) ? answer(request, server) : refuse(request, server)
  return Object.fromEntries(
    app.routes.map(({ path }) => [
      path.replace(/(?<=.)\/$/, ''),
      path.includes(':') ? answerWhole : answer,
    ]),
  )
}

const hasWholeSegments = ({ params = {} }: MatchedRequest) =>
  Object.values(params).every(isWholeSegment)

// A proxy may decode the path before it applies its rules, resolve it, and drop a fragment, which
// no request line should have.
const isWholeSegment = (segment: string) =>
  segment !== '.' && segment !== '..' && !/[/\\#]/.test(segment)

/** Answers a request whose path is none of the table's. */
export const refuseTarget = (
  gateway: Gateway,
  request: Request,
  id = readRequestId(request, gateway.ids.uuid()),
): Response => createErrorResponse(notFound(), id)

/** Reads the path of a request, whatever its Host is: `/api/v1/keys`. */
export const readPath = ({ url }: Request): string => TARGET.exec(url)?.[1] ?? ''

/** Reads the parameters of a request's query, whatever its Host is. */
export const readSearchParams = ({ url }: Request): URLSearchParams =>
  new URLSearchParams(TARGET.exec(url)?.[2] ?? '')

// Not `new URL`, which throws at a Host that is no host of a URL, such as `a:99999`.
const TARGET = /^(?:[a-z]+:\/\/[^/?#]*)?([^?#]*)(?:\?([^#]*))?/
