import type { Endpoint } from '../../catalog/models.ts'
import { FAMILIES, type Family, STRANGER } from './families.data.ts'

const plain = (name: string) => name.toLowerCase().replaceAll('.', '-')

/** What is known of the model of this endpoint. */
export const familyOf = (endpoint: Endpoint): Family => found(nameOf(endpoint)) ?? STRANGER

/** The endpoint under a name that tells what its model is: that of an inference profile does not, then our own slug may. */
export const named = (endpoint: Endpoint): Endpoint => ({ ...endpoint, upstreamModel: nameOf(endpoint) })

const nameOf = ({ upstreamModel, model }: Endpoint): string => (found(upstreamModel) ? upstreamModel : model)

const found = (name: string): Family | undefined => FAMILIES.find(([pattern]) => pattern.test(plain(name)))?.[1]
