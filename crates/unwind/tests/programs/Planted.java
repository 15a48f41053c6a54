import java.io.FileInputStream;

public class Planted {
    static int blockRead(FileInputStream input) throws Exception {
        return input.read();
    }

    static int archiveScan(FileInputStream input) throws Exception {
        return blockRead(input) + 1;
    }

    public static void main(String[] arguments) throws Exception {
        // Hot first, so that the compiler takes both.
        try (FileInputStream zero = new FileInputStream("/dev/zero")) {
            int sum = 0;
            for (int turn = 0; turn < 200_000; turn++) sum += archiveScan(zero);
            System.out.println("ready " + sum);
        }
        FileInputStream input = new FileInputStream("/proc/self/fd/0");
        while (archiveScan(input) > 0) { }
    }
}
