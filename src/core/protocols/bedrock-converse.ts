import { failure } from './bedrock-converse/failure.ts'
import { ConverseReader, parts } from './bedrock-converse/reader.ts'
import { answerToolOf, request } from './bedrock-converse/request.ts'
import { answeringBy } from './json-answer.ts'
import type { Protocol } from './protocol.ts'

/**
 * Amazon Bedrock's Converse: `POST {base_url}/model/{model}/converse`, one API for the models of
 * many vendors.
 */
export const bedrockConverse: Protocol<'text'> = {
  framing: 'aws-event-stream',
  takesNames: false,
  takesUrls: [],
  request,
  parts,
  reader: (call, endpoint) =>
    answeringBy(answerToolOf(call, endpoint), new ConverseReader(call, endpoint)),
  failure,
}
