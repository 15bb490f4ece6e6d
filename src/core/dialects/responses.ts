import type { Dialect } from './dialect.ts'
import { withPresets } from './presets.ts'
import { isTooLong, RESPONSES_ERROR_FORMAT } from './responses/error.ts'
import { responsesPreset } from './responses/preset.ts'
import { fillPrompt, namePreset } from './responses/prompt.ts'
import { toResponsesCall } from './responses/request.ts'
import { collectResponse } from './responses/response.ts'
import { ResponsesRequest } from './responses/schema.ts'
import { ResponseStream, renderResponseFailure, streamResponseEvents } from './responses/stream.ts'

const toCallWithPreset = withPresets(toResponsesCall)

/** The Responses API (specification E3, wire reference D). Nothing is stored. */
export const responses: Dialect<'text', ResponsesRequest> = {
  name: 'responses',
  kind: 'text',
  path: '/responses',
  operation: {
    id: 'createResponses',
    tag: 'Responses',
    summary: 'Answer with a response of items, whole or streamed',
  },
  body: ResponsesRequest,
  errorFormat: RESPONSES_ERROR_FORMAT,
  showsRouting: true,
  toCall: (world, actor, body, context) =>
    fillPrompt(toCallWithPreset(world, actor, namePreset(body), context), body),
  collectResponse,
  streaming: {
    begin: (heading, call, body) => new ResponseStream(heading, call, body),
    tellsFailure: isTooLong,
    streamEvents: streamResponseEvents,
    renderFailure: renderResponseFailure,
  },
  preset: responsesPreset,
}
