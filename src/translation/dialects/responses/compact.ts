import { GatewayError } from '../../../base/errors.ts'
import { type Json, readObjects } from '../../../base/json.ts'
import type { Answer } from '../../../language/answer.ts'
import type { TextCall } from '../../../language/call.ts'
import { isCompacting } from '../../compaction.ts'
import type { Dialect } from '../dialect.ts'
import { responses } from '../responses.ts'
import { collectResponse } from './response.ts'
import type { ResponsesRequest } from './schema.ts'

const { streaming: _, preset: __, ...base } = responses

/**
 * `POST /responses/compact`, as OpenAI's API has it: the conversation as a client goes on with it,
 * which is what its user said, and one `compaction` item for all else.
 */
export const compaction: Dialect<'text', ResponsesRequest> = {
  ...base,
  path: '/responses/compact',
  showsRouting: false,
  storing: 'read',
  operation: {
    id: 'compactResponse',
    tag: 'Responses',
    summary: 'Replace a conversation by a shorter one',
  },
  toCall: (world, actor, body, context) =>
    responses.toCall(world, actor, addTrigger(body), context),
  collectResponse: (answer, call, body) => collectCompaction(answer, call, addTrigger(body)),
}

/** Returns the body of a call that asks for a compaction, and that waits for it. */
function addTrigger(body: ResponsesRequest): ResponsesRequest {
  const items = listItems(body)
  const isAsked = items.at(-1)?.type === 'compaction_trigger'
  const input = isAsked ? items : [...items, { type: 'compaction_trigger' }]
  return { ...body, input, stream: false } as ResponsesRequest
}

const listItems = ({ input }: ResponsesRequest): Json[] =>
  typeof input === 'string'
    ? [{ type: 'message', role: 'user', content: input }]
    : readObjects(input)

/** Collects the answer. Throws `provider_unavailable` if it has no compaction. */
async function collectCompaction(
  answer: Answer<'text'>,
  call: TextCall,
  body: ResponsesRequest,
): Promise<Json> {
  const response = await collectResponse(answer, call, body)
  const made = readObjects(response.output).filter(({ type }) => type === 'compaction')
  if (made.length === 0 || !isCompacting(call))
    throw new GatewayError('provider_unavailable', 'The model made no summary')
  const said = listItems(body).filter(({ role }) => role === 'user')
  return {
    id: response.id,
    object: 'response.compaction',
    created_at: response.created_at,
    output: [...said, ...made],
    usage: response.usage,
  }
}
