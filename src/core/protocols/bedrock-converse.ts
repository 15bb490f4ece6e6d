import { readFailure } from './bedrock-converse/failure.ts'
import { ConverseReader, parseAnswer } from './bedrock-converse/reader.ts'
import { buildRequest, findAnswerTool } from './bedrock-converse/request.ts'
import { checkCalls } from './calls.ts'
import { createJsonAnswerReader } from './json-answer.ts'
import type { Protocol } from './protocol.ts'

/**
 * Amazon Bedrock's Converse: `POST {base_url}/model/{model}/converse`, one API for the models of
 * many vendors.
 */
export const bedrockConverse: Protocol<'text'> = checkCalls({
  framing: 'aws-event-stream',
  acceptsNames: false,
  urlMedia: [],
  buildRequest,
  parseAnswer,
  createReader: (call, endpoint) =>
    createJsonAnswerReader(findAnswerTool(call, endpoint), new ConverseReader(call, endpoint)),
  readFailure,
})
