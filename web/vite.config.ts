// Builds a page, that of reports or with PAGE=hub that of a hub, into one file without a reference to any other, with a policy that allows nothing but its own script and style.
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const IS_HUB = process.env.PAGE === "hub";
const SOURCE = IS_HUB ? "hub.html" : "index.html";
const TEMPLATE = process.env.TEMPLATE ?? (IS_HUB ? "../crates/wire/src/exports/page.html" : "../crates/view-report/src/html/template.html");
/** Largest page without data, and the same compressed, bytes. */
const MOST = IS_HUB ? ([20_480, 8_192] as const) : ([122_880, 46_080] as const);
/** What it may load: the page of a hub asks its hub. */
const LOADS = IS_HUB ? "; connect-src 'self'; img-src data:" : "";

const digest = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

function oneFile(): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      const files = Object.values(bundle);
      const script = files.flatMap((file) => (file.type === "chunk" ? [file.code.trim()] : [])).join("");
      const style = files.flatMap((file) => (file.fileName.endsWith(".css") && file.type === "asset" ? [String(file.source).trim()] : [])).join("");
      const page = files.find((file) => file.fileName === SOURCE);
      if (page?.type !== "asset") throw new Error("there is no page");
      if (/<\/script|<!--/i.test(script)) throw new Error("the script would end itself");
      const policy = `default-src 'none'${LOADS}; style-src ${digest(style)}; script-src ${digest(script)}; base-uri 'none'; form-action 'none'`;
      // Functions, since `$&` in a script would be taken for a pattern.
      const html = String(page.source)
        .replace(/<link rel="stylesheet"[^>]*>\n?/, "")
        .replace(/<script type="module"[^>]*><\/script>\n?/, "")
        .replace("<head>\n", () => `<head>\n<meta http-equiv="Content-Security-Policy" content="${policy}">\n`)
        .replace("</head>", () => `<style>${style}</style>\n</head>`)
        .replace("</body>", () => `<script>${script}</script>\n</body>`);
      const sizes = [html.length, gzipSync(html).length];
      console.log(`page without data: ${sizes[0]} bytes, ${sizes[1]} compressed`);
      if (sizes.some((size, at) => size > (MOST[at] as number))) throw new Error(`the page is larger than ${MOST.join(" and ")} bytes`);
      const path = resolve(import.meta.dirname, TEMPLATE);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, html);
      for (const name of Object.keys(bundle)) delete bundle[name];
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [oneFile()],
  build: { target: "es2022", modulePreload: false, cssMinify: true, cssCodeSplit: false, minify: true, reportCompressedSize: false, emptyOutDir: true, rollupOptions: { input: SOURCE, output: { format: "iife" } } },
});
