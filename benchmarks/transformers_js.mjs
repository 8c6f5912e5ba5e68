// node transformers_js.mjs PACKAGE TOKENIZER TEXTS FOUND: ids of the texts, and the texts of these ids.
import { readFileSync, writeFileSync } from "fs";

const [packageFolder, folder, textsFile, foundFile] = process.argv.slice(2);
const { AutoTokenizer, env } = await import(`${packageFolder}/dist/transformers.node.mjs`);
env.allowRemoteModels = false;
env.localModelPath = "";
const tokenizer = await AutoTokenizer.from_pretrained(folder);
const ids = JSON.parse(readFileSync(textsFile)).map((text) => tokenizer.encode(text));
const texts = ids.map((row) => (row.length ? tokenizer.decode(row) : ""));
writeFileSync(foundFile, JSON.stringify([ids, texts]));
