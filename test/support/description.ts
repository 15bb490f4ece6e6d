import type { OperationRequest } from './operations.ts'

/** A parameter of an operation, as the description has it. */
interface DescribedParameter {
  name: string
  in: string
  required: boolean
  example?: string | number
}

/** An operation, as the description has it. */
export interface DescribedOperation {
  operationId: string
  description: string
  parameters: DescribedParameter[]
  requestBody?: { content: Record<string, { schema: object; example?: object }> }
  responses: Record<string, { content?: Record<string, { schema: object }> }>
}

/** Builds the request that the page of the description has prefilled. */
export function buildExamples({ parameters, requestBody }: DescribedOperation): OperationRequest {
  const examples = (place: string) =>
    parameters.flatMap(({ in: where, name, example }) =>
      where === place && example !== undefined ? [[name, String(example)]] : [],
    )
  const body = requestBody?.content['application/json']?.example
  return {
    params: Object.fromEntries(examples('path')),
    query: new URLSearchParams(examples('query')).toString(),
    ...(body === undefined ? {} : { body }),
  }
}
